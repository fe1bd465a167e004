"""What a plug-in of one file brings is searched and trained by the command."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pandas
import pytest

from fastrcaps_search import load_network
from fastrcaps_search.definition.objective import COMMON
from tests import plug_in

if TYPE_CHECKING:
    from tests.conftest import Cli

pytestmark = pytest.mark.slow

POLICIES = """
from fastrcaps_search.definition.batch_policies import BATCH_POLICIES, BatchPolicy
from fastrcaps_search.definition.lr_policies import LR_POLICIES, LrPolicy
from fastrcaps_search.definition.checks import above_zero, whole
from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS, Parameter
from fastrcaps_search.definition.schedules import Curve, RateSchedule, Segment


def triangle(course):
    low, high = course.setting("lr_min"), course.setting("lr_max")
    top = course.setting("peak") * course.total
    up = Segment(Curve.LINEAR, 0, top, low, high)
    return RateSchedule((up, Segment(Curve.LINEAR, top, course.total, high, low)))


def doubling(course):
    return [course.setting("first_batch") * 2**epoch for epoch in range(course.epochs)]


TRIAL_PARAMETERS.register(Parameter("peak", above_zero(0.9), is_range=True, default=0.25))
TRIAL_PARAMETERS.register(Parameter("first_batch", whole(1, 64), default=4))
settings = ("lr_max", "lr_min", "peak")
LR_POLICIES.register(LrPolicy(name="triangle", rates=triangle, settings=settings))
BATCH_POLICIES.register(BatchPolicy(name="doubling", sizes=doubling, settings=("first_batch",)))
"""

NETWORK = """
from fastrcaps_search.definition.networks import NETWORKS, Network


def linear():
    from torch import nn

    from fastrcaps_search.capsnet.trainable import TrainableNetwork

    class Linear(TrainableNetwork):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(28 * 28, 10)

        def forward(self, images):
            return self.layer(images.flatten(1))

    return Linear()


NETWORKS.register(
    Network(name="linear", implementation="toy:linear", parameters=lambda *_: 7850)
)
"""

OBJECTIVE = """
from fastrcaps_search.definition.objective import COUNTS, OBJECTIVES, Direction, Objective

OBJECTIVES.register(
    Objective(
        name="samples",
        direction=Direction.MINIMIZE,
        scale=COUNTS,
        label="images seen",
        flag="max-samples",
        word="samples",
        best="fewest images seen",
        held="at most {:,.0f} images seen",
        missed="{} images too many",
        measure=lambda epochs, parameters: sum(epoch.samples for epoch in epochs),
    )
)
"""

COUNTED = """
name = "counted"
network = "lenet5"
data_set = "mnist-mini"
objectives = ["accuracy", "training_seconds", "parameters", "samples"]
train_images = 320
runs_per_trial = 2

[[configuration]]
lr_policy = "fixed"
batch_policy = "constant"
epochs = 2

[[configuration]]
lr_policy = "fixed"
batch_policy = "constant"
epochs = 5
"""

SAMPLER = """
from fastrcaps_search.definition.samplers import SAMPLERS, Sampler


def last(*, seed, feasible):
    import optuna

    class Last(optuna.samplers.BaseSampler):
        def infer_relative_search_space(self, study, trial):
            return {}

        def sample_relative(self, study, trial, search_space):
            return {}

        def sample_independent(self, study, trial, name, distribution):
            return distribution.choices[-1]

    return Last()


SAMPLERS.register(Sampler(name="last", implementation="toy:last"))
"""

LAST = """
name = "last"
network = "lenet5"
data_set = "mnist-mini"
epochs = 1
train_images = 320
sampler = "last"

[space]
lr_policy = ["one_cycle", "fixed"]
batch_policy = ["constant"]
batch_size = [8, 64, 16]
"""

SEARCHED = """
name = "searched"
network = "linear"
data_set = "mnist-mini"
epochs = 2
train_images = 2000

[space]
lr_policy = ["triangle"]
batch_policy = ["doubling"]
lr_max = [0.001, 0.01]
peak = [0.2, 0.4]
first_batch = [8, 16]
"""

LISTED = """
name = "listed"
network = "lenet5"
data_set = "mnist-mini"
epochs = 2
train_images = 320
first_batch = 8

[[configuration]]
lr_policy = "triangle"
batch_policy = "constant"

[[configuration]]
lr_policy = "triangle"
batch_policy = "doubling"
peak = 0.5
"""


@pytest.fixture
def toy(cli: Cli, tmp_path: Path) -> Cli:
    """The command where the plug-in ``toy`` is installed."""
    site = tmp_path / "site"
    site.mkdir()
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        done = cli(*arguments, "--study", "s.toml", "--storage", "s.db", PYTHONPATH=path)
        assert (done.stderr, done.returncode) == ("", 0), done.stdout
        return done

    return run


def test_policies_train_at_the_rates_that_follow_by_hand(toy: Cli, tmp_path: Path) -> None:
    plug_in.install(tmp_path / "site", POLICIES)
    (tmp_path / "s.toml").write_text(LISTED)
    toy("run", "--device", "cpu")
    with sqlite3.connect(tmp_path / "s.db") as stored:
        rows = stored.execute(
            "SELECT number, epoch, batch_size, lr_start, lr_end FROM fastrcaps_epochs "
            "ORDER BY number, epoch"
        ).fetchall()
    assert rows == [
        # 640 images, of which 160 rise from 1e-4 to 1e-3; steps of 16 begin at 304, 320 and 624.
        (0, 1, 16, pytest.approx(1e-4), pytest.approx(1e-3 - 9e-4 * 144 / 480)),
        (0, 2, 16, pytest.approx(7e-4), pytest.approx(1e-3 - 9e-4 * 464 / 480)),
        # 320 rise. Steps of 8, then of 16; the last ones begin at 312 and 624.
        (1, 1, 8, pytest.approx(1e-4), pytest.approx(1e-4 + 9e-4 * 312 / 320)),
        (1, 2, 16, pytest.approx(1e-3), pytest.approx(1e-3 - 9e-4 * 304 / 320)),
    ]
    trials = json.loads(toy("trials", "--json").stdout)
    assert [trial["params"] for trial in trials] == [
        {"lr_policy": "triangle", "batch_policy": "constant"},
        {"lr_policy": "triangle", "batch_policy": "doubling", "peak": 0.5},
    ]
    page = (tmp_path / "reports/listed.html").read_text()
    assert "triangle+doubling" in page


def test_a_network_trains_in_a_space_of_the_plug_ins_parameters(toy: Cli, tmp_path: Path) -> None:
    plug_in.install(tmp_path / "site", POLICIES + NETWORK)
    (tmp_path / "s.toml").write_text(SEARCHED)
    toy("run", "--device", "cpu", "--trials", "1")
    (trial,) = json.loads(toy("trials", "--json").stdout)
    # 784 weights for each of ten classes, and their biases.
    assert trial["values"]["parameters"] == 7850
    # A linear classifier of 2,000 digits; guessing has 10 %.
    assert trial["values"]["accuracy"] > 0.6
    params = trial["params"]
    assert (params["lr_policy"], params["batch_policy"]) == ("triangle", "doubling")
    assert 0.2 <= params["peak"] <= 0.4
    assert params["first_batch"] in (8, 16)
    with sqlite3.connect(tmp_path / "s.db") as stored:
        sizes = stored.execute("SELECT batch_size FROM fastrcaps_epochs ORDER BY epoch").fetchall()
    assert sizes == [(params["first_batch"],), (2 * params["first_batch"],)]


def test_an_objective_is_measured_compared_bounded_and_shown(toy: Cli, tmp_path: Path) -> None:
    plug_in.install(tmp_path / "site", OBJECTIVE)
    (tmp_path / "s.toml").write_text(COUNTED)
    toy("run", "--device", "cpu")
    trials = json.loads(toy("trials", "--json").stdout)
    with sqlite3.connect(tmp_path / "s.db") as stored:
        # Images up to the best epoch of each run, and their mean over the two runs of a trial.
        (means,) = zip(
            *stored.execute(
                "SELECT AVG(seen) FROM (SELECT r.number, SUM(e.samples) AS seen FROM "
                "fastrcaps_runs r JOIN fastrcaps_epochs e USING (study_id, number, run) "
                "WHERE e.epoch <= r.best_epoch GROUP BY r.number, r.run) GROUP BY number"
            ),
            strict=True,
        )
        directions = stored.execute("SELECT direction FROM study_directions").fetchall()
    assert [trial["values"]["samples"] for trial in trials] == list(means)
    assert sorted(directions) == [("MAXIMIZE",), ("MINIMIZE",), ("MINIMIZE",), ("MINIMIZE",)]
    fewest = min(range(2), key=lambda number: means[number])
    chosen = json.loads(toy("select", "--prefer", "samples", "--json").stdout)
    assert (chosen["trial"], min(means) < max(means)) == (fewest, True)
    bounded = toy("select", "--max-samples", str(int(max(means)) - 1))
    assert bounded.stdout.split("\n")[1].split()[0] == str(fewest)
    assert f"images seen {20 * means[0]:,.0f} to {means[0] / 20:,.0f}" in toy("status").stdout
    assert "images seen" in toy("front").stdout
    toy("report", "--format", "csv", "--out", "trials.csv")
    (column,) = pandas.read_csv(tmp_path / "trials.csv")[["values.samples"]].to_numpy().T
    assert list(column) == list(means)
    assert "fewest images seen" in (tmp_path / "reports/counted.html").read_text()
    # Its network is of use where the plug-in is not.
    toy("export", "--trial", "0", "--out", "network")
    card = load_network(tmp_path / "network").card
    assert (card.trial, card.definition.objectives) == (0, COMMON)


def test_a_sampler_proposes(toy: Cli, tmp_path: Path) -> None:
    plug_in.install(tmp_path / "site", SAMPLER)
    (tmp_path / "s.toml").write_text(LAST)
    toy("run", "--device", "cpu", "--trials", "1")
    (trial,) = json.loads(toy("trials", "--json").stdout)
    wanted = {"lr_policy": "fixed", "batch_policy": "constant", "batch_size": 16}
    assert trial["params"] == wanted
