"""What the vendors' programs print, made from plain values: one function a format, for tests and for recordings.

Formats were learnt from outputs of real machines; no output is copied. Addresses are those kept for documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Relate = Callable[[str, str], str]

NPU_LEGEND = """
Legend:

  X    = Self
  SYS  = Path traversing PCIe and NUMA nodes. Nodes are connected through SMP, such as QPI, UPI.
  PHB  = Path traversing PCIe and the PCIe host bridge of a CPU.
  PIX  = Path traversing a single PCIe switch
  PXB  = Path traversing multipul PCIe switches
  HCCS = Connection traversing HCCS.
  NA   = Unknown relationship.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipRow:
    """A chip as the table and the map of ``npu-smi`` show it; ``second`` is its Phy-ID or Device."""

    npu: int
    chip: int
    name: str
    bus_id: str
    used_mb: int
    total_mb: int
    second: int | None = None
    health: str = "OK"
    power: str = "93.1"


def npu_topo(
    names: Sequence[str], relate: Relate, affinity: Mapping[str, str] | None = None, *, lead: str = "\t   "
) -> str:
    """``npu-smi info -t topo``: padded with blanks, the header behind a tab, blanks or nothing."""
    titles = [*names, *(["CPU Affinity"] if affinity is not None else [])]
    lines = [lead + "".join(f"{title:<11}" for title in titles).rstrip()]
    for row in names:
        cells = [*("X" if row == column else relate(row, column) for column in names)]
        cells += [] if affinity is None else [affinity[row]]
        lines.append("".join(f"{cell:<11}" for cell in (row, *cells)).rstrip())
    return "\n".join(lines) + "\n" + NPU_LEGEND


def nvidia_topo(
    gpus: Sequence[str],
    relate: Relate,
    cpus: Mapping[str, str] | None = None,
    numa: Mapping[str, str] | None = None,
    *,
    nics: Sequence[str] = (),
    legend: Mapping[str, str] | None = None,
    gpu_numa: bool = False,
) -> str:
    """``nvidia-smi topo -m``: tabs, empty cells beside interfaces, one tab too many before the GPU's own node."""
    titles = [
        *(["CPU Affinity"] if cpus is not None else []),
        *(["NUMA Affinity"] if numa is not None else []),
        *(["GPU NUMA ID"] if gpu_numa else []),
    ]
    names = [*gpus, *nics]
    lines = ["\t" + "\t".join([*names, *titles])]
    for row in names:
        cells = [" X " if row == column else relate(row, column) for column in names]
        beside = [source[row] if row in gpus else "" for source in (cpus, numa) if source is not None]
        if gpu_numa:
            beside += ["", "N/A" if row in gpus else ""]
        lines.append("\t".join([row, *cells, *beside]))
    lines += ["", "Legend:", "", "  X    = Self", "  NV#  = Connection traversing a bonded set of # NVLinks", ""]
    if legend:
        lines += ["NIC Legend:", "", *(f"  {nic}: {name}" for nic, name in legend.items()), ""]
    return "\n".join(lines)


def rocm_topo(
    n_gpus: int, weight: Callable[[int, int], int], hops: Callable[[int, int], int], kind: Callable[[int, int], str],
    nodes: Sequence[int],
) -> str:  # fmt: skip
    """``rocm-smi --showtopo``: three tables and the NUMA nodes."""

    def table(title: str, cell: Callable[[int, int], object]) -> list[str]:
        names = [f"GPU{number}" for number in range(n_gpus)]
        rows = [f" {title} ".center(80, "="), "       " + "".join(f"{name:<13}" for name in names)]
        for row in range(n_gpus):
            cells = ["0" if row == column else str(cell(row, column)) for column in range(n_gpus)]
            rows.append(f"{names[row]:<7}" + "".join(f"{cell:<13}" for cell in cells))
        return [*rows, ""]

    lines = ["", " ROCm System Management Interface ".center(80, "=")]
    lines += table("Weight between two GPUs", weight)
    lines += table("Hops between two GPUs", hops)
    lines += table("Link Type between two GPUs", kind)
    lines.append(" Numa Nodes ".center(80, "="))
    for number, node in enumerate(nodes):
        lines.append(f"GPU[{number}]\t\t: (Topology) Numa Node: {node}")
        lines.append(f"GPU[{number}]\t\t: (Topology) Numa Affinity: {node}")
    return "\n".join([*lines, " End of ROCm SMI Log ".center(80, "="), ""])


def npu_info(rows: Sequence[ChipRow], *, second: str = "", hbm: bool = True, width: int = 52) -> str:
    """``npu-smi info``: two lines a chip, a double rule after each card, then the table of processes.

    Args:
        second: the title of the second number: none, ``Phy-ID`` or ``Device``.
        hbm: whether the memory is HBM, with a DDR column of zeros before it.
        width: of the last column; newer versions draw it wider.
    """
    rule = f"+{'-' * 27}+{'-' * 15}+{'-' * width}+"
    double = rule.replace("-", "=")
    bar = "| {:<26}| {:<14}| {:<" + str(width - 1) + "}|"
    memory = "Memory-Usage(MB)  HBM-Usage(MB)" if hbm else "Memory-Usage(MB)"
    lines = [
        rule,
        f"| npu-smi 24.1.0                   Version: 24.1.0{' ' * (width - 5)}|",
        rule,
        bar.format("NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)"[: width - 1]),
        bar.format(f"Chip  {second}".rstrip(), "Bus-Id", f"AICore(%)   {memory}"),
        double,
    ]
    for index, row in enumerate(rows):
        used = f"{row.used_mb:<5}/ {row.total_mb}"
        tail = f"0           0    / 0          {used}" if hbm else f"0           {used}"
        number = "" if row.second is None else f"     {row.second}"
        lines.append(bar.format(f"{row.npu}     {row.name}", row.health, f"{row.power:<12}41                0    / 0"))
        lines.append(bar.format(f"{row.chip}{number}", row.bus_id, tail))
        is_last = index + 1 == len(rows) or rows[index + 1].npu != row.npu
        lines.append(double if is_last else "+" + "-" * (len(double) - 2) + "+")
    processes = f"| {'NPU     Chip':<24} | {'Process id':<13} | {'Process name':<24} | {'Process memory(MB)':<22} |"
    lines += ["+" + "-" * (len(processes) - 2) + "+", processes, "+" + "=" * (len(processes) - 2) + "+"]
    text = f"No running processes found in NPU {rows[0].npu}" if rows else "No running processes found"
    lines += [f"| {text:<{len(processes) - 4}} |", "+" + "=" * (len(processes) - 2) + "+"]
    return "\n".join(lines) + "\n"


def npu_map(rows: Sequence[tuple[int, int, str, str]], *, phy: bool = False) -> str:
    """``npu-smi info -m``: (NPU, chip, logic id, name) a row; with ``phy`` the logic id stands twice, as Phy-ID too."""
    titles = ["NPU ID", "Chip ID", "Chip Logic ID", *(["Chip Phy-ID"] if phy else []), "Chip Name"]
    lines = ["\t" + "".join(f"{title:<31}" for title in titles)]
    for npu, chip, logic, name in rows:
        cells = [str(npu), str(chip), logic, *([logic] if phy else []), name]
        lines.append("\t" + "".join(f"{cell:<31}" for cell in cells))
    return "\n".join(lines) + "\n"


def npu_list(npus: Mapping[int, int], total: int | None = None, product: str | None = None) -> str:
    """``npu-smi info -l``: NPU to number of chips."""
    lines = [f"\tTotal Count                    : {len(npus) if total is None else total}", ""]
    for npu, n_chips in npus.items():
        lines.append(f"\tNPU ID                         : {npu}")
        lines += [f"\tProduct Name                   : {product}"] if product else []
        lines += [f"\tChip Count                     : {n_chips}", ""]
    return "\n".join(lines)


def spod_info(pod: str, sdid: str) -> str:
    """``npu-smi info -t spod-info``."""
    return f"\tSDID                           : {sdid}\n\tSuper Pod ID                   : {pod}\n"


def hccn_port(
    number: int, address: str, gateway: str, switch: str, *, tls: int = 0, link: str = "UP"
) -> dict[str, str]:
    """All that ``hccn_tool -i N`` answers, as entries of a recording; ``switch`` is ``mac/port``."""
    mac, _, port = switch.partition("/")
    lldp = (
        f"Chassis ID TLV\n\tMAC: {mac}\nPort ID TLV\n\tIfname: {port}\n"
        "System Description TLV\n\tA switch, release 1: x\n"
        "Management Address TLV\n\tIPv4: 203.0.113.254\nEnd of LLDPDU TLV\n"
    )
    tool = f"hccn_tool -i {number}"
    return {
        f"{tool} -ip -g": f"ipaddr:{address}\nnetmask:255.255.255.0",
        f"{tool} -link -g": f"link status: {link}",
        f"{tool} -net_health -g": f"net health status: {'Success' if link == 'UP' else 'Fault'}",
        f"{tool} -lldp -g": lldp,
        f"{tool} -gateway -g": f"default gateway:{gateway}, Iface:eth{number}",
        f"{tool} -stat -g": "packet statistics:\nroce_rx_err_pkt_num:0\nroce_tx_err_pkt_num:0",
        f"{tool} -tls -g": f"dev_id:{number}, tls switch[{tls}](0:disable, 1:enable), tls preconfigured[1]",
    }
