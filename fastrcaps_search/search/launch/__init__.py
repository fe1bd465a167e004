"""How workers are started: here as local processes, elsewhere as a plug-in says."""

from __future__ import annotations

from fastrcaps_search.search.launch.launcher import (
    LAUNCHERS,
    Launcher,
    WorkerHandle,
    WorkerSpec,
    worker_command,
    worker_environment,
)
from fastrcaps_search.search.launch.local import LOCAL, LocalLauncher

__all__ = [
    "LAUNCHERS",
    "LOCAL",
    "Launcher",
    "LocalLauncher",
    "WorkerHandle",
    "WorkerSpec",
    "worker_command",
    "worker_environment",
]
