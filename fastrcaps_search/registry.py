"""What can be added from outside: named things of one kind, and how a plug-in brings its own.

A plug-in is an installed distribution whose entry point of the group ``fastrcaps_search.plugins``
names a module. The module registers what it adds when it is imported; every process of a study
(parent, workers, page writer) imports it before it first looks anything up.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from typing import Generic, Protocol, TypeVar

from fastrcaps_search.errors import UsageError

PLUGINS = "fastrcaps_search.plugins"
"""Group of the entry points that name the modules of plug-ins."""


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str:
        """By which study files, flags and the database know it."""


Item = TypeVar("Item", bound=Named)


class Registry(Generic[Item]):
    """The things of one kind by name, in the order in which they were registered.

    Args:
        kind: What they are, for messages: ``learning-rate policy``.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, Item] = {}

    def register(self, item: Item) -> Item:
        """Add a thing, which is returned.

        Raises:
            UsageError: Another one has its name.
        """
        if self._items.setdefault(item.name, item) != item:
            raise UsageError(
                f'a {self.kind} must have a name of its own, got a second "{item.name}"; '
                "rename the one of the plug-in"
            )
        return item

    def __iter__(self) -> Iterator[Item]:
        load_plugins()
        return iter(tuple(self._items.values()))

    def __len__(self) -> int:
        load_plugins()
        return len(self._items)

    def __contains__(self, name: object) -> bool:
        load_plugins()
        return name in self._items

    def __getitem__(self, name: str) -> Item:
        """The thing of that name.

        Raises:
            KeyError: There is none.
        """
        load_plugins()
        return self._items[name]

    @property
    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(item.name for item in self)


@cache
def load_plugins() -> None:
    """Import the modules of all plug-ins, once.

    Raises:
        UsageError: One cannot be imported.
    """
    for point in entry_points(group=PLUGINS):
        try:
            point.load()
        except UsageError:
            raise
        except Exception as error:
            raise UsageError(
                f"the plug-in {point.name} ({point.value}) must be importable, got "
                f"{type(error).__name__}: {error}; fix or uninstall it"
            ) from error
