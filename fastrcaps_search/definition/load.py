"""Study files: TOML to a checked definition, by shipped name or by path."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastrcaps_search.definition import checks, keys
from fastrcaps_search.definition.networks import CAPSNET, NETWORKS
from fastrcaps_search.definition.space import NETWORK_KEYS, replaced_keys
from fastrcaps_search.definition.study import StudyDefinition, checked_values
from fastrcaps_search.errors import DefinitionError, UsageError
from fastrcaps_search.typed import path_of, unwrapped

_INSTALLED = Path(__file__).resolve().parent.parent / "studies"
# In a checkout, which an editable install reads, they are beside the package.
SHIPPED = _INSTALLED if _INSTALLED.is_dir() else _INSTALLED.parent.parent / "studies"
LARGEST_FILE_BYTES = 1_000_000
StudyLike = str | Path | StudyDefinition
"""A shipped or stored name, a study file, or a definition."""


def shipped_names() -> list[str]:
    """Names of the studies that come with the package, sorted."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def load_study(name_or_path: str | Path) -> StudyDefinition:
    """Load a study by its shipped name or by the path of a study file.

    Raises:
        DefinitionError: With file, key, what came and what is allowed.
        UsageError: No such study or file.
    """
    path = find_study(name_or_path)
    values = _read(path, seen=())
    with _naming(path):
        return StudyDefinition.from_dict(values)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Say in which file a definition is wrong; shipped studies go by their names."""
    try:
        yield
    except DefinitionError as error:
        place = path.stem if path.parent == SHIPPED else str(path)
        raise DefinitionError(error.message, key=error.key, file=error.file or place) from error


def stored_name(study: StudyLike) -> str:
    """Name under which a study is stored, given by shipped name, study file, or that name."""
    if isinstance(study, StudyDefinition):
        return study.name
    study = unwrapped(study, "study")
    is_file = study.endswith(".toml") or path_of(study, "study").is_file()
    return load_study(study).name if is_file and study not in shipped_names() else study


def find_study(name_or_path: str | Path, *, beside: Path | None = None) -> Path:
    """Path of a study file.

    Args:
        name_or_path: A shipped name, or a path.
        beside: Folder that a relative path starts from; the working directory by default.

    Raises:
        UsageError: Neither a shipped study nor a file.
    """
    name = unwrapped(name_or_path, "study")
    if name in shipped_names():
        return SHIPPED / f"{name}.toml"
    path = (beside or Path()) / path_of(name, "study")
    try:
        if path.is_file():
            return path
        came = "a folder" if path.is_dir() else "no such file"
    except OSError as error:
        came = str(error.strerror)
    raise UsageError(
        f"study {checks.shown(name_or_path)} must be a study file or one of "
        f"{', '.join(shipped_names())}; got {came}"
    )


def _read(path: Path, *, seen: tuple[Path, ...]) -> dict[str, Any]:
    with _naming(path):
        values = _parse(path)
        # Each file by itself, so that a message names the one that holds the mistake.
        checked_values(values, extends=checks.text)
        _require_one_place(values)
        if "extends" not in values:
            return values
        base = _base(path, values.pop("extends"), seen=seen)
        # Never the base's name: two definitions of one name would meet in a database.
        values.setdefault("name", keys.name(path.stem, "name"))
    return _merge(base, values)


def _require_one_place(values: dict[str, Any]) -> None:
    """Refuse a value beside choices for it in one file: it would be ignored."""
    space = values.get("space", {})
    for key in [key for key in values if key in replaced_keys(space)]:
        raise DefinitionError(
            f"must be either a value or choices in [space], got {checks.shown(values[key])} and "
            f"{checks.shown(space[key])}; leave one of them out",
            key=key,
        )


def _parse(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: must be readable, got {error.strerror}") from error
    if len(raw) > LARGEST_FILE_BYTES:
        raise DefinitionError(
            f"must be a study file of at most {LARGEST_FILE_BYTES} bytes, got a larger one"
        )
    try:
        return tomllib.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DefinitionError(f"must be UTF-8 text, got another byte at {error.start}") from error
    except RecursionError as error:
        raise DefinitionError("must be valid TOML: nested too deeply") from error
    except ValueError as error:
        # Not only TOMLDecodeError: Python refuses integers of thousands of digits by itself.
        raise DefinitionError(f"must be valid TOML: {error}") from error


def _base(path: Path, name: str, *, seen: tuple[Path, ...]) -> dict[str, Any]:
    try:
        base = find_study(name, beside=path.parent)
    except UsageError as error:
        raise DefinitionError(str(error), key="extends") from error
    chain = (*seen, path.resolve())
    if base.resolve() in chain:
        raise checks.wrong(name, "extends", "not lead back to itself")
    return _read(base, seen=chain)


def _merge(base: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """``values`` over ``base``; the space key by key, a list of configurations as a whole.

    A value and choices for the same key replace each other. A network does not take over the
    parameters that it has not.
    """
    space = values.get("space", {})
    network = NETWORKS[{**base, **values}.get("network", CAPSNET.name)]
    lacking = {*NETWORK_KEYS, "reconstruction_weight"} - {*network.settings}
    gone = replaced_keys(space) | lacking
    if "space" in values:
        gone.add("configuration")
    if "configuration" in values:
        gone.add("space")
    kept = {key: value for key, value in base.items() if key not in gone}
    merged = {**kept, **values}
    if "space" in kept:
        gone = lacking | values.keys()
        offered = {key: value for key, value in kept["space"].items() if key not in gone}
        merged["space"] = {**offered, **space}
    return merged
