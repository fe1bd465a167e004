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


def test_a_device_that_is_not_here_has_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "devices", lambda: ["cpu"])
    monkeypatch.setattr(device, "device_name", lambda device: f"the {device}")
    monkeypatch.setattr(probe, "device_name", device.device_name)
    asked: dict[str, Any] = {"definition": {"name": "s", "network": "lenet5"}}
    nothing: dict[str, Any] = {"devices": [], "names": [], "setting": None}
    assert probe.answered({**asked, "devices": "cuda"}) == nothing
    found = probe.answered({**asked, "devices": "auto"})
    assert found is not None
    assert (found["devices"], found["names"]) == (["cpu"], ["the cpu"])
    assert found["setting"]["device_name"] == "the cpu"
