"""Study files: TOML to a checked definition, by shipped name or by path."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from fastrcaps_search.definition import checks
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import DefinitionError, UsageError

SHIPPED = Path(__file__).parent.parent / "studies"
LARGEST_FILE_BYTES = 1_000_000


def shipped_names() -> list[str]:
    """Names of the studies that come with the package, sorted."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def load_study(name_or_path: str) -> StudyDefinition:
    """Load a study by its shipped name or by the path of a study file.

    Raises:
        DefinitionError: With file, key, what came and what is allowed.
        UsageError: No such study or file.
    """
    path = find_study(name_or_path)
    shown = name_or_path if path.parent == SHIPPED else str(path)
    try:
        return StudyDefinition.from_dict(_read(path, seen=()))
    except DefinitionError as error:
        raise DefinitionError(error.message, key=error.key, file=error.file or shown) from error


def find_study(name_or_path: str, *, beside: Path | None = None) -> Path:
    """Path of a study file.

    Args:
        name_or_path: A shipped name, or a path.
        beside: Folder that a relative path starts from; the working directory by default.

    Raises:
        UsageError: Neither a shipped study nor a file.
    """
    if name_or_path in shipped_names():
        return SHIPPED / f"{name_or_path}.toml"
    path = (beside or Path()) / name_or_path
    if path.is_file():
        return path
    came = "a folder" if path.is_dir() else "no such file"
    raise UsageError(
        f"study {checks.shown(name_or_path)} must be a study file or one of "
        f"{', '.join(shipped_names())}; got {came}"
    )


def _read(path: Path, *, seen: tuple[Path, ...]) -> dict[str, Any]:
    values = _parse(path)
    if "extends" not in values:
        return values
    base = _base(path, values.pop("extends"), seen=seen)
    return _merge(base, values)


def _parse(path: Path) -> dict[str, Any]:
    try:
        raw = path.read_bytes()
        if len(raw) > LARGEST_FILE_BYTES:
            raise DefinitionError(f"must be a study file, got {len(raw)} bytes", file=str(path))
        return tomllib.loads(raw.decode())
    except OSError as error:
        raise UsageError(f"{path}: must be readable, got {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DefinitionError("must be UTF-8 text", file=str(path)) from error
    except tomllib.TOMLDecodeError as error:
        raise DefinitionError(f"must be valid TOML: {error}", file=str(path)) from error


def _base(path: Path, name: object, *, seen: tuple[Path, ...]) -> dict[str, Any]:
    try:
        base = find_study(checks.text(name, "extends"), beside=path.parent)
    except DefinitionError as error:
        raise DefinitionError(error.message, key=error.key, file=str(path)) from error
    except UsageError as error:
        raise DefinitionError(str(error), key="extends", file=str(path)) from error
    chain = (*seen, path.resolve())
    if base.resolve() in chain:
        raise DefinitionError(
            f"must not lead back to itself, got {checks.shown(name)}",
            key="extends",
            file=str(path),
        )
    return _read(base, seen=chain)


def _merge(base: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """``values`` over ``base``; the space key by key, a list of configurations as a whole."""
    merged = {**base, **values}
    if "configuration" in values and "space" not in values:
        merged.pop("space", None)
    elif "space" in values:
        if "configuration" not in values:
            merged.pop("configuration", None)
        if isinstance(values["space"], dict) and isinstance(base.get("space"), dict):
            merged["space"] = {**base["space"], **values["space"]}
    return merged
