"""What is registered is found by its name, and a plug-in is imported by whoever looks."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fastrcaps_search.errors import UsageError
from fastrcaps_search.registry import Registry
from tests import plug_in


@dataclass(frozen=True)
class Colour:
    name: str
    shade: int = 0


def test_things_are_found_by_name_in_the_order_of_their_registration() -> None:
    colours: Registry[Colour] = Registry("colour")
    red = colours.register(Colour("red"))
    colours.register(Colour("blue"))
    assert colours["red"] is red
    assert colours.names == ("red", "blue")
    assert "blue" in colours
    assert "green" not in colours
    with pytest.raises(KeyError):
        colours["green"]


def test_a_name_is_given_once() -> None:
    colours: Registry[Colour] = Registry("colour")
    colours.register(Colour("red"))
    colours.register(Colour("red"))
    with pytest.raises(UsageError, match=r'a colour must have a name of its own, .* "red"; ren'):
        colours.register(Colour("red", 1))


LOOK = """
from fastrcaps_search import registry
from fastrcaps_search.errors import UsageError
registry.found = registry.Registry("colour")
try:
    print(registry.found.names)
except UsageError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("module", "printed"),
    [
        (
            "from types import SimpleNamespace as Colour\n"
            "from fastrcaps_search import registry\n"
            "registry.found.register(Colour(name='green'))\n",
            "('green',)",
        ),
        (
            "import no_such_module",
            "the plug-in toy (toy) must be importable, got ModuleNotFoundError: "
            "No module named 'no_such_module'; fix or uninstall it",
        ),
    ],
)
def test_a_plug_in_is_imported_by_the_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, printed: str
) -> None:
    plug_in.install(tmp_path, module)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    found = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == printed
