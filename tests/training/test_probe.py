from __future__ import annotations

from typing import Any

import pytest

from fastrcaps_search.training import device, probe


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("auto", ["cuda:0", "cuda:1", "cuda:2"]),
        ("cuda", ["cuda:0", "cuda:1", "cuda:2"]),
        ("cuda:1", ["cuda:1"]),
        ("cuda:3", []),
        ("cuda:2,cuda:0", ["cuda:2", "cuda:0"]),
        ("cuda:1,cuda:1", ["cuda:1"]),
        ("cuda:0,cuda:3", []),
        ("cpu", ["cpu"]),
    ],
)
def test_devices_of_a_machine_with_three_cards(
    monkeypatch: pytest.MonkeyPatch, wanted: str, found: list[str]
) -> None:
    monkeypatch.setattr(device, "devices", lambda: ["cuda:0", "cuda:1", "cuda:2", "cpu"])
    assert device.found_devices(wanted) == found


@pytest.mark.parametrize(("wanted", "found"), [("auto", ["cpu"]), ("cuda", []), ("cuda:0", [])])
def test_devices_of_a_machine_without_cards(
    monkeypatch: pytest.MonkeyPatch, wanted: str, found: list[str]
) -> None:
    monkeypatch.setattr(device, "devices", lambda: ["cpu"])
    assert device.found_devices(wanted) == found


def test_nothing_is_built_for_a_device_that_is_known_or_not_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device, "devices", lambda: ["cpu"])
    monkeypatch.setattr(probe, "device_name", lambda device: f"the {device}")
    asked: dict[str, Any] = {"known": ["the cpu"]}
    assert probe.probe({**asked, "devices": "cuda"}) == {"devices": []}
    assert probe.probe({**asked, "devices": "auto"}) == {
        "devices": ["cpu"],
        "device_name": "the cpu",
        "measured": [],
    }
