"""A worker that is to stop in the middle of an epoch: what it saves, gives back, goes on with."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.store.location import locate
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord
from fastrcaps_search.training.policy import training_plan
from fastrcaps_search.training.run import Run
from fastrcaps_search.training.splits import stage
from tests import plug_in
from tests.end_to_end.violence import timeless
from tests.store.workers import until

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command

pytestmark = pytest.mark.slow

# Epochs of seconds, which stand for those of many minutes.
LONG = """
name = "long"
network = "lenet5"
data_set = "mnist-mini"
epochs = 2
boundaries = [1]
batch_size = 1
train_images = 1500

[[configuration]]
lr_policy = "exponential_decay"
batch_policy = "constant"
"""
SOON = """
import sys

if sys.argv[0].endswith(".worker"):
    from fastrcaps_search.training import run

    run.SAVE_SECONDS, run.WORTH_SECONDS = 0.1, 0.0
"""
RUN = ("run", "--study", "long.toml", "--trials", "1", "--workers", "1", "--threads", "1")
SAID = "fastrcaps-search: interrupted; the state is saved, the same line continues the study"


@pytest.fixture
def long(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command with a study of long epochs, which its workers save early."""
    (command.folder / "long.toml").write_text(LONG)
    site = command.folder / "site"
    site.mkdir()
    plug_in.install(site, SOON)
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    monkeypatch.setenv("PYTHONPATH", path)
    return command


@contextmanager
def opened(command: Command) -> Iterator[tuple[Store, StudyRecord]]:
    with closing(Store.reading(locate(str(command.folder / "fastrcaps.db")))) as store:
        yield store, store.study("long")


def holders(command: Command) -> list[int]:
    """Processes that hold a run."""
    with opened(command) as (store, study):
        return [lease.pid for lease in store.leases(study)]


def begin(command: Command) -> subprocess.Popen[str]:
    """A run whose worker has saved the epoch that it is in."""
    begun, process = time.time_ns(), command.start(*RUN)
    until(lambda: is_saved(command, since=begun))
    return process


def is_saved(command: Command, *, since: int = 0) -> bool:
    """Whether the epoch in progress has been saved."""
    found = command.folder.glob("fastrcaps-files/long-*/trial-0000/run-0/epoch-*.progress.*s")
    try:
        return [file.stat().st_mtime_ns > since for file in found] == [True]
    except FileNotFoundError:
        # Its epoch has ended.
        return False


def is_halted_in_the_middle(process: subprocess.Popen[str], command: Command) -> bool:
    """Halt all; let them go on where the worker is at the end of an epoch."""
    os.killpg(process.pid, signal.SIGSTOP)
    if is_saved(command):
        return True
    os.killpg(process.pid, signal.SIGCONT)
    return False


def uninterrupted(command: Command, record: TrialRecord) -> list[dict[str, float]]:
    """Figures of the same training in this process, without a stop."""
    (run,) = record.runs
    assert run.setting is not None
    with opened(command) as (_, study):
        definition, seed = study.definition, study.seed_of(0)
    splits = stage(definition, device="cpu", threads=1, folder=None)
    plan = training_plan(definition, record.parameters)
    whole = Run(plan, seed=seed, splits=splits, kernel=run.setting.kernel)
    whole.train()
    return [timeless(metrics) for metrics in whole.epochs]


CONTINUES = re.compile(r"trial 0 continues in epoch [12] at \d+ %")


@pytest.mark.usefixtures("torch_as_it_was")
def test_stops_in_the_middle_of_epochs_cost_nothing(long: Command) -> None:
    for whom, numbers in (
        # All processes of a job step, as `scancel` and limits of time do, in some versions twice.
        ("all", (signal.SIGCONT, signal.SIGTERM, signal.SIGTERM)),
        ("parent", (signal.SIGTERM, signal.SIGTERM)),
        ("worker", (signal.SIGCONT, signal.SIGUSR1, signal.SIGTERM)),
    ):
        process = begin(long)
        (worker,) = holders(long)
        strike = os.killpg if whom == "all" else os.kill
        for number in numbers:
            strike(worker if whom == "worker" else process.pid, number)
        out, error = process.communicate(timeout=60)
        assert process.returncode == 130, out + error
        assert error.splitlines()[-1] == SAID
        assert (CONTINUES.search(out) is None) == (whom == "all"), out
        # Nothing to wait for.
        assert holders(long) == []
        assert is_saved(long)

    process = begin(long)
    until(lambda: is_halted_in_the_middle(process, long))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert CONTINUES.search(long(*RUN).stdout)
    assert holders(long) == []
    with opened(long) as (store, study):
        (trial,) = store.trials(study, epochs=True)
    assert [run.bit_equal for run in trial.runs] == [True]
    assert [timeless(row.metrics) for row in trial.epochs] == uninterrupted(long, trial)
    (log,) = long.folder.glob("fastrcaps-files/long-*/trial-0000/run-0.log")
    text = log.read_text()
    assert len(re.findall(r"continues in epoch \d at \d+ % from its checkpoint", text)) == 4
    # No SIGCONT was taken for one.
    assert "suspended" not in text
    assert not is_saved(long)
