"""Tuner plugins that HCCL and NCCL load into a job, so that it runs by our table: two shared libraries and their use.

    libautotune_hccl_tuner.so   `hcclTunerPlugin_v1`
    libautotune_nccl_tuner.so   `ncclTunerPlugin_v2` to `ncclTunerPlugin_v5`

csrc/ has their sources. Here: where they are, and the lines of a shell that load them. Loads nothing, measures nothing.
"""

from .usage import PLUGINS, Plugin, lines_for, shared_library

__all__ = ["PLUGINS", "Plugin", "lines_for", "shared_library"]
