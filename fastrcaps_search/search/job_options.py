"""What the options of all engines have in common: how they are given, read and refused."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence

from fastrcaps_search.errors import UsageError
from fastrcaps_search.typed import path_of

SETUP, PYTHON, FOLDER = "setup", "python", "folder"
COMMON = (SETUP, PYTHON, FOLDER)


class JobOptions:
    """Options that an engine was given.

    Args:
        engine: Its name.
        options: Values by name, in the order given.
        repeatable: Names that may have several values, beside the set-up.

    Attributes:
        setup: Lines of bash before a worker starts.
        python: Python program on the nodes.

    Raises:
        UsageError: One of them cannot be.
    """

    def __init__(
        self, engine: str, options: Mapping[str, Sequence[str]], repeatable: Collection[str] = ()
    ) -> None:
        self._engine = engine
        self._options = options
        for name, values in options.items():
            if len(values) > 1 and name != SETUP and name not in repeatable:
                raise self.refused(name, "given once", " and ".join(values))
        self.setup = self.all(SETUP)
        if any("\n" in line for line in self.setup):
            raise self.refused(SETUP, "one line each", "several")
        self.python = self.one(PYTHON) or sys.executable
        if folder := self.one(FOLDER):
            path_of(folder, f"the launcher option {FOLDER}")

    def all(self, name: str) -> tuple[str, ...]:
        """The values of a name."""
        return tuple(self._options.get(name, ()))

    def one(self, name: str) -> str:
        """The value of a name; empty where none was given."""
        return next(iter(self.all(name)), "")

    def words(self, names: Iterable[str]) -> str:
        """Those of these names that were given: ``cpus=4, memory=8G``."""
        return ", ".join(f"{name}={value}" for name in names for value in self.all(name))

    def matching(self, name: str, pattern: str | re.Pattern[str], what: str) -> str:
        """The same, of what is to match a pattern.

        Raises:
            UsageError: It does not.
        """
        value = self.one(name)
        if name in self._options and not re.fullmatch(pattern, value):
            raise self.refused(name, what, value)
        return value

    def refused(self, name: str, what: str, came: str) -> UsageError:
        """That a value cannot be."""
        return UsageError(
            f'the launcher option "{name}" of {self._engine} must be {what}, got "{came}"; '
            "correct it"
        )
