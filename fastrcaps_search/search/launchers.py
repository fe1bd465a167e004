"""What ``--launcher`` names: what starts workers here, and the engines that place them elsewhere.

A launcher starts workers as children of a run and hears them; their number and threads are planned
for this machine. An engine is given whole ``worker`` commands, which plan for theirs, and which
outlive the run: it takes options, and may be left to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from fastrcaps_search.definition.checks import shortened
from fastrcaps_search.errors import UsageError
from fastrcaps_search.search.engines import ENGINES, Engine
from fastrcaps_search.search.launch import LAUNCHERS
from fastrcaps_search.search.ray_jobs import RAY
from fastrcaps_search.search.slurm import SLURM

ENGINES.register(SLURM)
ENGINES.register(RAY)

LauncherOptions = Mapping[str, Sequence[str]]
"""Values by name, in the order given."""


def chosen_engine(launcher: str, options: LauncherOptions, *, detach: bool) -> Engine | None:
    """The engine of that name; ``None`` for what starts workers here.

    Args:
        launcher: As for ``--launcher``.
        options: As for ``--launcher-option``.
        detach: Whether the run is to return once the workers are placed.

    Raises:
        UsageError: There is none of that name, or it does not know an option.
    """
    if launcher in ENGINES:
        engine = ENGINES[launcher]
        for name in options:
            if name not in engine.options:
                near = get_close_matches(name, engine.options)
                known = f"{'closest' if near else 'it knows'}: {', '.join(near or engine.options)}"
                raise UsageError(
                    f'the launcher {launcher} must know its options, got "{shortened(name)}"; '
                    f"{known}; see docs/clusters.md"
                )
        return engine
    if launcher not in LAUNCHERS:
        names = " or ".join((*LAUNCHERS.names, *ENGINES.names))
        raise UsageError(f"launcher must be {names}, got {launcher!r}; others come with plug-ins")
    given = [*(["--launcher-option"] if options else []), *(["--detach"] if detach else [])]
    if given:
        raise UsageError(
            f"{' and '.join(given)} must come with a launcher that places workers elsewhere, got "
            f"{launcher}; name {' or '.join(ENGINES.names)} with --launcher"
        )
    return None


def planned_workers(launcher: str, workers: int | None) -> tuple[int | None, int]:
    """Of the workers that were asked for those to be started here, and the jobs of an engine.

    Args:
        launcher: As for ``--launcher``.
        workers: As for ``--workers``; ``None`` where it was not said.
    """
    if launcher in ENGINES:
        return None, 1 if workers is None else workers
    return workers, 1


def read_options(given: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Values by name, in the order given."""
    found: dict[str, tuple[str, ...]] = {}
    for name, value in given:
        found[name] = (*found.get(name, ()), value)
    return found
