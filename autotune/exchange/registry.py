"""The export formats by name."""

from __future__ import annotations

from .csv_format import CsvExporter
from .exporter import Exporter
from .hccl_config import HcclConfigExporter
from .hccl_env import HcclEnvExporter
from .hccl_tuner import HcclTunerExporter
from .json_format import JsonExporter
from .markdown_format import MarkdownExporter
from .mpich import MpichExporter
from .nccl_tuner import NcclTunerExporter
from .openmpi import OpenMpiExporter
from .openmpi_json import OpenMpiJsonExporter
from .portfolio_format import PortfolioExporter
from .ucc import UccExporter
from .yaml_format import YamlExporter

_ALL: tuple[Exporter, ...] = (
    JsonExporter(),
    YamlExporter(),
    CsvExporter(),
    MarkdownExporter(),
    HcclTunerExporter(),
    HcclEnvExporter(),
    HcclConfigExporter(),
    PortfolioExporter(),
    NcclTunerExporter(),
    OpenMpiExporter(),
    OpenMpiJsonExporter(),
    MpichExporter(),
    UccExporter(),
)
EXPORTERS: dict[str, Exporter] = {exporter.name: exporter for exporter in _ALL}
"""As given to ``autotune export --format``."""
