"""The command line: list, record, replay, budgets, bound.

python benchmarks search list                    write configs/ (before anything is measured)
python benchmarks search record [SWEEP ...]      measure this machine: all sweeps, a quarter of an hour when it is quiet
python benchmarks search replay [SWEEP ...]      every search on every recording, as it ends by itself
python benchmarks search budgets [SWEEP ...]     every search on every recording, for the same seconds
python benchmarks search bound [SWEEP ...]       what a race that is never wrong would lose, to noise alone
"""

from __future__ import annotations

import argparse

from .recording import MACHINE, RECORDINGS
from .sweeps import SWEEPS, Sweep, write_list


def main() -> int:
    parser = argparse.ArgumentParser(prog="search", description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("what", choices=("list", "record", "record-rank", "replay", "budgets", "bound"))
    parser.add_argument("sweeps", nargs="*", metavar="SWEEP", help=", ".join(sweep.name for sweep in SWEEPS))
    parser.add_argument("--sampler", action="append", help="replay only this one; may be repeated")
    parser.add_argument("--effort", default="normal", choices=("quick", "normal", "thorough"), help="of the replay")
    parser.add_argument("--cells", action="store_true", help="replay: a line for each cell as well")
    parser.add_argument("--seconds", type=float, default=600.0, help="record: of a sweep; the next call goes on")
    parser.add_argument("--machine", default=MACHINE, help="the folder of recordings; %(default)s if not given")
    given = parser.parse_args()
    folder = RECORDINGS / given.machine
    chosen = [_sweep(name) for name in given.sweeps] or list(SWEEPS)
    if given.what == "list":
        for sweep in chosen:
            print(write_list(sweep))
        return 0
    if given.what == "record-rank":
        from .record import record_rank

        record_rank(chosen[0], folder, within_s=given.seconds)
        return 0
    if given.what == "record":
        from .record import record

        folder.mkdir(exist_ok=True)
        for sweep in chosen:
            path = record(sweep, folder, within_s=given.seconds)
            print(f"{path}, {path.stat().st_size / 1e3:.0f} kB")
        return 0
    from .replay import bounds, budgets, replay

    recorded = [sweep for sweep in chosen if given.sweeps or (folder / f"{sweep.name}.npz").exists()]
    if given.what == "bound":
        return bounds(recorded, folder)
    if given.what == "budgets":
        return budgets(recorded, folder, samplers=given.sampler)
    return replay(recorded, folder, samplers=given.sampler, effort=given.effort, show_cells=given.cells)


def _sweep(name: str) -> Sweep:
    for sweep in SWEEPS:
        if sweep.name == name:
            return sweep
    raise SystemExit(f"unknown sweep {name!r}; there are {', '.join(sweep.name for sweep in SWEEPS)}")
