"""Two really trained trials on the same images, from the command line and from Python."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest

import fastrcaps_search
from fastrcaps_search.data.shipped import MNIST_MINI
from fastrcaps_search.definition.choices import EvaluateOn
from fastrcaps_search.export.accuracy import measure
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Cli
    from tests.trained import Trained

IMAGES = 500


def bits(hits: bytes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.unpackbits(np.frombuffer(hits, np.uint8), count=IMAGES).astype(bool)


def test_hits_of_every_run_add_up_to_its_accuracy(trained: Trained) -> None:
    with closing(Store.reading(locate(str(trained.file)))) as store:
        for name in ("small-lenet", "small-capsnet"):
            study = store.study(name)
            trials = store.trials(study)
            hits = store.hits(study, [trial.number for trial in trials])
            runs = {(t.number, run.run): run.accuracy for t in trials for run in t.runs}
            assert hits.keys() == runs.keys()
            for key, accuracy in runs.items():
                assert int(bits(hits[key]).sum()) / IMAGES == accuracy


@pytest.mark.usefixtures("torch_as_it_was")
@pytest.mark.parametrize("name", ["small-lenet", "small-capsnet"])
def test_hits_are_those_of_the_network_that_export_hands_out(
    name: str, trained: Trained, exports: dict[str, Path]
) -> None:
    loaded = fastrcaps_search.load_network(exports[name])
    with closing(Store.reading(locate(str(trained.file)))) as store:
        study = store.study(name)
        record = loaded.card
        best = store.trials(study)[record.trial].best_run
        assert best is not None
        assert best.run == record.run
        found = store.hits(study, [record.trial])[record.trial, record.run]
    again = measure(loaded, data_set=MNIST_MINI, split=EvaluateOn.VALIDATION, folder=None)
    assert bits(found).tolist() == (again.predicted == again.labels).tolist()


def test_two_trials_compared(trained: Trained, call: Cli) -> None:
    with closing(Store.reading(locate(str(trained.file)))) as store:
        study = store.study("small-lenet")
        trials = store.trials(study)
        stored = store.hits(study, [0, 1])
    best = [max(trial.runs, key=lambda run: (run.accuracy or 0, -run.run)) for trial in trials]
    first, second = (bits(stored[number, best[number].run]) for number in (0, 1))
    arguments = ("compare", "0", "1", "--study", "small-lenet", "--storage", str(trained.file))
    done = call(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == fastrcaps_search.compare_trials("small-lenet", 0, 1, storage=str(trained.file))
    only = [int((first & ~second).sum()), int((second & ~first).sum())]
    assert [network["only"] for network in found["networks"]] == only
    accuracies = [network["accuracy"] for network in found["networks"]]
    assert found["difference"] == pytest.approx(accuracies[0] - accuracies[1])
    text = call(*arguments).stdout
    assert f"difference {100 * found['difference']:+.2f} points" in text
    assert f"p = {found['p_value']:.2g}\n" in text
    assert "not of their configurations" in text


def test_wrong_trials_are_one_line(trained: Trained, call: Cli) -> None:
    place = ("--study", "small-lenet", "--storage", str(trained.file))
    done = call("compare", "0", "0", *place)
    assert (done.returncode, done.stdout) == (2, "")
    assert "two different trials must be named, got 0 twice" in done.stderr
    assert call("compare", "0", "x", *place).returncode == 2
    assert "compare_trials" in fastrcaps_search.__all__
