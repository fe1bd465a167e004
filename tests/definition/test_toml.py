"""Definitions as study files: what is written is read back as the same study."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrcaps_search.definition.load import load_study, shipped_names
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.definition.toml import study_toml
from tests.definition.test_study import CONFIGURATION, study_files

CONFIGURED = {
    "lr_policy": "fixed",
    "batch_policy": "constant",
    "decoder": "full",
    "weight_sharing": False,
}


def read_back(text: str, **more: Any) -> StudyDefinition:  # noqa: ANN401 - keys of a study file
    return StudyDefinition.from_dict({**tomllib.loads(text), **more})


@pytest.mark.parametrize("name", shipped_names())
def test_a_shipped_study_reads_back(name: str, tmp_path: Path) -> None:
    definition = load_study(name)
    text = study_toml(definition)
    assert read_back(text) == definition
    path = tmp_path / "copy.toml"
    path.write_text(text, encoding="utf-8")
    assert load_study(str(path)) == definition


@given(study_files())
def test_a_search_reads_back(file: dict[str, Any]) -> None:
    definition = StudyDefinition.from_dict(file)
    assert read_back(study_toml(definition)) == definition


@given(st.lists(CONFIGURATION, min_size=1, max_size=5, unique_by=str))
def test_a_list_reads_back(configurations: list[dict[str, Any]]) -> None:
    file = {"name": "s", "network": "lenet5", "configuration": configurations}
    definition = StudyDefinition.from_dict(file)
    text = study_toml(definition)
    assert read_back(text) == definition
    assert text.count("[[configuration]]") == len(configurations)
    assert "[space]" not in text


def test_a_small_study_by_hand() -> None:
    definition = StudyDefinition.from_dict(
        {
            "name": "a.b-c_1",
            "network": "lenet5",
            "lr_min": 1e-9,
            "boundaries": [1, 2],
            "space": {"lr_policy": ["fixed", "one_cycle"], "lr_max": [0.001, 0.1]},
        }
    )
    assert study_toml(definition).split("\n") == [
        'name = "a.b-c_1"',
        'network = "lenet5"',
        'data_set = "mnist"',
        'objectives = ["accuracy", "training_seconds", "parameters"]',
        'sampler = "tpe"',
        "epochs = 30",
        'evaluate_on = "validation"',
        "runs_per_trial = 1",
        "batch_size = 16",
        "boundaries = [1, 2]",
        'precision = "fp32"',
        "shifts = true",
        "lr_min = 1e-09",
        "decay_rate = 0.96",
        "decay_steps = 2000",
        "cycle_epochs = 1",
        "cycle_growth = 1",
        "polynomial_power = 2.0",
        'routing_gradient = "full"',
        "reconstruction_weight = 0.0005",
        "",
        "[space]",
        'lr_policy = ["fixed", "one_cycle"]',
        'batch_policy = ["constant", "adabatch"]',
        "adabatch_exponent = [2, 3, 4, 5, 6, 7]",
        "lr_max = [0.001, 0.1]",
    ]


@pytest.mark.parametrize("name", ["mnist", "paper-mnist"])
def test_keys_can_be_left_out(name: str) -> None:
    definition = load_study(name)
    whole = tomllib.loads(study_toml(definition))
    left = tomllib.loads(study_toml(definition, without=("name", "space", "configuration")))
    assert left == {
        key: value for key, value in whole.items() if key not in ("name", "space", "configuration")
    }
    assert "epochs" in left
    # What the page offers: the same protocol for configurations of the reader's own.
    again = StudyDefinition.from_dict({**left, "name": "mine", "configuration": [CONFIGURED]})
    assert again == replace(
        definition, name="mine", space=None, configurations=again.configurations
    )


def test_long_lists_are_whole() -> None:
    sizes = list(range(1, 200))
    definition = StudyDefinition.from_dict({"name": "s", "space": {"batch_size": sizes}})
    text = study_toml(definition)
    assert tomllib.loads(text)["space"]["batch_size"] == sizes
    assert read_back(text) == definition
    assert all("=" in line or line in ("", "[space]") for line in text.split("\n"))
