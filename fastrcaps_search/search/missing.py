"""Files of a study that are no longer where they are looked for: left behind, or gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from fastrcaps_search.errors import UsageError
from fastrcaps_search.search.files import run_folder
from fastrcaps_search.store.location import FILES_VARIABLE, locate
from fastrcaps_search.store.records import RunKey, StudyRecord
from fastrcaps_search.store.store import Store


def missing_files(store: Store, study: StudyRecord) -> Iterator[str]:
    """What somebody should know before the study goes on without files that it had.

    Files of another machine are not missed.

    Raises:
        UsageError: Trials would begin again whose checkpoints stand elsewhere on this machine,
            and no folder was named.
    """
    here = store.location.files
    name = f"--files {{}} ({FILES_VARIABLE})"
    for (folder, is_there), numbers in _missing(store, study).items():
        networks, begun = (", ".join(map(str, sorted(numbers[kind]))) for kind in (True, False))
        advice = name.format(folder)
        if begun and is_there and here == locate(store.location.url).files:
            raise UsageError(
                f"{here} must hold the files of {study.name}, got none of trial {begun}, which "
                f"are in {folder}: go on with them by {advice}, or move them; or begin these "
                "trials again with --files and a new folder"
            )
        where = (
            f"are in {folder}, not in {here}: name it with {advice}"
            if is_there
            else (f"are gone, they were in {folder}")
        )
        if networks:
            yield f"the networks of trials {networks} {where}"
        if begun:
            yield f"the checkpoints of trials {begun} {where}; these begin again from epoch 1"


def _missing(store: Store, study: StudyRecord) -> dict[tuple[Path, bool], dict[bool, set[int]]]:
    """Numbers of trials by the folder of files that they were in, whether they are there still.

    And by whether the run has ended: what is missing is a network, or else where to go on from.
    """
    location, seen = store.location, store.snapshot(study.name)
    held = {lease.key for lease in seen.leases}
    found: dict[tuple[Path, bool], dict[bool, set[int]]] = defaultdict(lambda: defaultdict(set))
    runs = [(trial.number, run) for trial in seen.trials for run in trial.runs]
    for number, run in runs:
        is_wanted = run.log_path and not run.removed and run.failure is None
        if not is_wanted or RunKey(number, run.run) in held:
            continue
        log = Path(run.log_path or "")
        is_there, folder = log.with_suffix("").is_dir(), log.parents[2]
        is_own = is_there or folder == location.files or location.path is not None
        if is_own and not run_folder(location, study, number, run.run).is_dir():
            (trial,) = store.trials(study, epochs=True, number=number)
            if run.has_ended or any(epoch.run == run.run for epoch in trial.epochs):
                found[folder, is_there][run.has_ended].add(number)
    return found
