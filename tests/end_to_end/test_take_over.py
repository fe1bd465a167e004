"""Two machines on PostgreSQL: one is lost, the other takes its trial over, with and without files.

Machines differ in host name, boot, working directory, data folder and cores; one database server
and, where they share files, one folder or bucket is all that they have in common.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fastrcaps_search.store.location import locate
from fastrcaps_search.store.store import Store
from tests.end_to_end.violence import figures
from tests.machines import on_a_clone

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command, ReadUntil
    from tests.postgres import PostgresServer

pytestmark = pytest.mark.slow

# Epochs long enough to be killed in.
STUDY = """
name = "shared"
network = "lenet5"
data_set = "mnist-mini"
epochs = 3
boundaries = [1]
train_images = 2000

[[configuration]]
lr_policy = "fixed"
batch_policy = "constant"

[[configuration]]
lr_policy = "exponential_decay"
batch_policy = "constant"
"""
WORK = ("--study", "shared.toml", "--workers", "1", "--threads", "1", "--lease-seconds", "2")
RUN = ("run", "--trials", "2", *WORK, "--verbose")


class Machine:
    """A machine with folders of its own."""

    def __init__(self, command: Command, name: str) -> None:
        self.name, self.folder = name, command.folder / name
        self._command = command
        for one in (self.folder / "data", self.folder / "clone"):
            one.mkdir(parents=True)
        (self.folder / "shared.toml").write_text(STUDY)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        clone = on_a_clone(self.folder / "clone", boot=self.name, name=self.name)
        return subprocess.Popen(
            [*clone, *self._command.line(*arguments)],
            cwd=self.folder,
            env={
                **self._command.environment(),
                "FASTRCAPS_DATA": str(self.folder / "data"),
                "FASTRCAPS_RUNTIME_DIR": str(self.folder / "slots"),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *arguments: str, rc: int = 0) -> str:
        process = self.start(*arguments)
        said, _ = process.communicate()
        assert process.returncode == rc, said
        return said


def stored(url: str) -> list[Any]:
    """What was trained, seconds excepted."""
    with closing(Store.reading(locate(url))) as store:
        return figures(store.trials(store.study("shared"), epochs=True))


@pytest.fixture(scope="module")
def undisturbed(make_command: Callable[[], Command]) -> list[Any]:
    command = make_command()
    (command.folder / "shared.toml").write_text(STUDY)
    command(*RUN)
    return stored(str(command.folder / "fastrcaps.db"))


@pytest.mark.parametrize("files", ["folder", "s3", "none"])
def test_another_machine_goes_on_where_it_reaches_the_checkpoints(
    files: str,
    command: Command,
    read_until: ReadUntil,
    undisturbed: list[Any],
    postgres_server: PostgresServer,
    postgres_url: str,
    request: pytest.FixtureRequest,
) -> None:
    first, second = Machine(command, "host-a"), Machine(command, "host-b")
    storage = ("--storage", postgres_url)
    place = str(command.folder / "common")
    if files == "s3":
        place = request.getfixturevalue("s3_url")
    where = () if files == "none" else ("--files", place)

    process = first.start(*RUN, *storage, *where)
    read_until(process, "trial 0 epoch 1:")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    count = "select count(*) from fastrcaps_epochs"
    ((epochs,),) = postgres_server.run_sql(postgres_url, count)
    assert 1 <= epochs < 3
    if files == "none":
        # The other machine has no such folder.
        first.folder.rename(command.folder / "away")

    said = second("worker", *WORK, *storage, *where, "--verbose")
    again = (
        f"trial 0 begins again: its checkpoints are in {first.folder}/fastrcaps-files on host-a, "
        f"not in {second.folder}/fastrcaps-files here; workers with those --files remove them "
        "once it has ended, --files with a folder or URL that all workers reach keeps them\n"
    )
    # One that was killed between a checkpoint and its row has that epoch too.
    goes_on = re.search(r"trial 0 continues at epoch (\d)", said)
    assert (again in said, goes_on is not None) == (files == "none", files != "none"), said
    assert goes_on is None or int(goes_on[1]) in (epochs + 1, epochs + 2)
    log = next(second.folder.glob("fastrcaps-files/*/trial-0000/run-0.log"), None)
    if files != "folder":
        assert log is not None
        assert ("run 0 begins again: its" in log.read_text()) == (files == "none")

    assert stored(postgres_url) == undisturbed
    claims = (
        "select number, token, host from fastrcaps_claims where purpose = 'train' "
        "order by number, token"
    )
    found = postgres_server.run_sql(postgres_url, claims)
    assert [(number, token, host.partition("/")[0]) for number, token, host in found] == [
        (0, 1, "host-a"),
        (0, 2, "host-b"),
        (1, 1, "host-b"),
    ]
    if files == "s3":
        the_rest_works_with_a_url(command, second, place, storage)


def the_rest_works_with_a_url(
    command: Command, machine: Machine, place: str, storage: tuple[str, str]
) -> None:
    """Status, export and doctor of a study whose networks are in the bucket alone."""
    study, where = ("--study", "shared", *storage), ("--files", place)
    assert re.search(
        rf"disk: [\d.]+ MB in {place}/shared-\w{{8}}\n", machine("status", *study, *where)
    )
    assert not [*machine.folder.rglob("*.safetensors"), *command.folder.rglob("*.safetensors")]
    machine("export", *study, *where, "--trial", "0", "--out", "network")
    refused = machine("export", *study, "--trial", "0", "--out", "other", rc=1)
    assert f"they were in {place}, or in the place that --files names" in refused
    assert re.search(rf"\nfiles +{place}\n", machine("doctor", *storage, *where))


def test_a_bucket_that_cannot_be_used_is_told_before_anything_is_stored(
    command: Command, s3_url: str, tmp_path: Path
) -> None:
    (command.folder / "shared.toml").write_text(STUDY)
    other = s3_url.replace("bucket", "another")
    said = command(*RUN, "--files", other, rc=1).stderr
    assert said == (
        f"fastrcaps-search: files must be writable at {other}, got: Access Denied; check bucket, "
        "credentials and permissions\n"
    )
    assert not (command.folder / "fastrcaps.db").exists()
