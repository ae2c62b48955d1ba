"""What a schedule costs on a topology: prices without measuring, for any schedule of ``kernels.schedules``.

    topology ──► derive ──► fabric ──► sharing ─► profile ─► network ──► price
                   │       schedules ─► moves ─────┘            ▲
                   └────► host ◄── work, cut                    └── parameters ◄── fit ◄── trials

``network`` prices messages over links, from closed forms, for up to tens of thousands of ranks; ``host`` prices the
native executor on shared memory. Both are pure, and linear in their parameters, which ``fit`` finds from trials.
"""

from .derive import host_model, layout_of, machine_model, model_of
from .fabric import Fabric, HostPattern, Network, Tier, crossbar
from .fit import Timed, fit_host, fit_network, timed
from .host import HostModel
from .joined import joined_model
from .limits import least_us
from .network import CodecCost, NetworkModel
from .parameters import HostParameters, NetworkParameters
from .price import CostModel, Price

__all__ = [
    "CodecCost",
    "CostModel",
    "Fabric",
    "HostModel",
    "HostParameters",
    "HostPattern",
    "Network",
    "NetworkModel",
    "NetworkParameters",
    "Price",
    "Tier",
    "Timed",
    "crossbar",
    "fit_host",
    "fit_network",
    "host_model",
    "joined_model",
    "layout_of",
    "least_us",
    "machine_model",
    "model_of",
    "timed",
]
