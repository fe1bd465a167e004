"""The command line that goes on with a study as it was run: to be pasted in the same folder."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from fastrcaps_search.data.data_set import DATA_VARIABLE
from fastrcaps_search.store.location import (
    LEASE_SECONDS,
    PATIENCE_SECONDS,
    STORAGE_VARIABLE,
    Location,
    chosen_location,
)
from fastrcaps_search.store.records import StudyRecord

if TYPE_CHECKING:
    from fastrcaps_search.search.options import RunOptions

HIDDEN = "***"
SECRET = re.compile(
    r"(?i)(\w*(?:secret|token|passw|credential|api_?key|access_?key)\w*\s*[=:]\s*)"
    r"(?:\"[^\"]*\"|'[^']*'|[^\s\"']+)|(?<=://)()[^/@\s]*:[^/@\s]*(?=@)"
)
"""What a line of set-up may hold and nobody is to read: the value of a variable, a URL's user."""


def asked_flags(options: RunOptions) -> str:
    """Flags that a run was given, for :func:`run_words`; those of the study and database left out.

    Returns:
        JSON, without secrets.
    """
    return json.dumps(_asked(options))


def placed_flags(options: RunOptions) -> str:
    """Those flags of a run which decide what an engine is asked for a job."""
    return json.dumps([one for one in _asked(options) if one[0] != "--workers"])


def _asked(options: RunOptions) -> list[tuple[str, str]]:
    devices, usual = options.devices, type(options).__dataclass_fields__
    is_placed = options.engine is not None
    told = {
        "--files": (options.location.place, None),
        "--data-dir": (options.data_folder, None),
        "--devices": (devices.devices, type(devices)().devices),
        "--workers-per-device": (devices.workers_per_device, None),
        "--threads": (devices.threads, None),
        # Those that nobody asked for are stored with the study's layout.
        "--workers": (options.jobs, 1) if is_placed else (devices.workers, None),
        "--lease-seconds": (options.lease_seconds, LEASE_SECONDS),
        "--store-patience": (options.store_patience, PATIENCE_SECONDS),
        "--max-failures": (options.max_failures, usual["max_failures"].default),
        "--launcher": (options.launcher, usual["launcher"].default),
    }
    flags = [(name, _plain(value)) for name, (value, default) in told.items() if value != default]
    flags += [
        ("--launcher-option", f"{name}={_hidden(options.location.redacted(one))}")
        for name, values in options.launcher_options.items()
        for one in values
    ]
    return flags


def _hidden(text: str) -> str:
    """The text with stars for what may be secret."""
    return SECRET.sub(rf"\1{HIDDEN}", text)


def _plain(value: object) -> str:
    """As flags take it: numbers without an exponent."""
    return f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def study_words(name: str, location: Location, storage: str | Path | None) -> str:
    """What follows ``--study`` for a command that reads a study.

    Args:
        name: As it was typed.
        location: Its database.
        storage: As it was typed; ``None`` where the environment or the default names it.
    """
    words = shlex.quote(name)
    if storage is None:
        return words
    # A password stays in the variable, which must be set.
    hidden = f'"${{{STORAGE_VARIABLE}:?}}"'
    return f"{words} --storage {hidden if location.secrets else shlex.quote(str(storage))}"


def run_words(
    study: StudyRecord, location: Location, storage: str | Path | None, *, name: str | None = None
) -> str:
    """What follows ``run --study`` to go on with a study as its last run did.

    Args:
        study: The study.
        location: Its database.
        storage: As it was typed; ``None`` where the environment or the default names it.
        name: The study's name or file as it was typed, if it was.
    """
    return study_words(name or study.name, location, storage) + flag_words(study, storage)


def flag_words(study: StudyRecord, storage: str | Path | None) -> str:
    """The flags of a study's last run, each after a space, but for what goes without saying.

    Args:
        study: The study.
        storage: Its database, as for :func:`run_words`.
    """
    usual = {("--files", chosen_location(storage).place)}
    if folder := os.environ.get(DATA_VARIABLE):
        usual.add(("--data-dir", str(Path(folder).absolute())))
    told = [one for one in _stored(study) if one not in usual]
    return "".join(f" {flag} {shlex.quote(value)}" for flag, value in told)


def asked_files(study: StudyRecord) -> str | None:
    """Where the last run of a study was told to keep its files."""
    return dict(_stored(study)).get("--files")


def _stored(study: StudyRecord) -> list[tuple[str, str]]:
    return [(flag, value) for flag, value in json.loads(study.asked or "[]")]


def run_line(
    study: StudyRecord, location: Location, storage: str | Path | None, *, name: str | None = None
) -> str:
    """The whole line; see :func:`run_words`."""
    return f"fastrcaps-search run --study {run_words(study, location, storage, name=name)}"
