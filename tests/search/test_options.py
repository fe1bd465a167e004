from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import fastrcaps_search
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import UsageError
from fastrcaps_search.search.options import RunOptions, WorkerOptions
from fastrcaps_search.store.location import locate

STUDY = StudyDefinition.from_dict({"name": "s", "network": "lenet5", "epochs": 2})
PATIENT: dict[str, Any] = {"lease_seconds": 30.0, "store_patience": 600.0}
LEASE = "lease_seconds must be seconds from 1 to 86400, got "
PATIENCE = "store_patience must be seconds from 0 to 31536000, got "
FAILURES = "max_failures must be a whole number of at least 1, got "


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"lease_seconds": 0}, f"{LEASE}0"),
        ({"lease_seconds": -3.0}, f"{LEASE}-3.0"),
        ({"lease_seconds": math.inf}, f"{LEASE}inf"),
        ({"lease_seconds": math.nan}, f"{LEASE}nan"),
        ({"lease_seconds": "30"}, f"{LEASE}'30'"),
        ({"lease_seconds": True}, f"{LEASE}True"),
        ({"store_patience": -0.5}, f"{PATIENCE}-0.5"),
        ({"store_patience": math.inf}, f"{PATIENCE}inf"),
        ({"store_patience": None}, f"{PATIENCE}None"),
        ({"max_failures": 0}, f"{FAILURES}0"),
        ({"max_failures": 1.0}, f"{FAILURES}1.0"),
        ({"max_failures": False}, f"{FAILURES}False"),
        (
            {"launcher": "slurrm"},
            "launcher must be local or slurm or ray, got 'slurrm'; others come with plug-ins",
        ),
    ],
)
def test_options_of_workers_that_cannot_be(
    tmp_path: Path, given: dict[str, Any], line: str
) -> None:
    with pytest.raises(UsageError) as error:
        WorkerOptions(location=locate(str(tmp_path / "a.db")), **{**PATIENT, **given})
    assert str(error.value) == line
    # The same from Python, before anything is made.
    with pytest.raises(UsageError) as error:
        fastrcaps_search.run_study(STUDY, trials=1, storage=str(tmp_path / "a.db"), **given)
    assert str(error.value) == line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"trials": 0}, "trials must be a whole number of at least 1, got 0"),
        ({"trials": "4"}, "trials must be a whole number of at least 1, got '4'"),
        ({"seed": -1}, "seed must be a whole number from 0 to 2147483647, got -1"),
        ({"seed": 2**31}, "seed must be a whole number from 0 to 2147483647, got 2147483648"),
        ({"front_runs": 1}, "runs_on_front must be a whole number from 2 to 100, got 1"),
        ({"front_runs": 101}, "runs_on_front must be a whole number from 2 to 100, got 101"),
        ({"lease_seconds": 0.5}, f"{LEASE}0.5"),
    ],
)
def test_options_of_runs_that_cannot_be(tmp_path: Path, given: dict[str, Any], line: str) -> None:
    options = {"trials": 1, **PATIENT, **given}
    with pytest.raises(UsageError) as error:
        RunOptions(definition=STUDY, location=locate(str(tmp_path / "a.db")), **options)
    assert str(error.value) == line


def test_the_least_that_is_allowed(tmp_path: Path) -> None:
    options = RunOptions(
        definition=STUDY,
        location=locate(str(tmp_path / "a.db")),
        trials=None,
        seed=0,
        front_runs=2,
        lease_seconds=1,
        store_patience=0,
        max_failures=1,
    )
    assert (options.lease_seconds, options.launcher) == (1, "local")
