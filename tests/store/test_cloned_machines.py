"""Machines and containers that go by one name: nobody's trial is taken for a dead one's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from tests.machines import on_a_clone
from tests.store.workers import BEGIN, line, say

if TYPE_CHECKING:
    from tests.store.conftest import Sql

# Claims what there is whenever it is told to, and says which trial and whose claim of it.
CLAIMS = (
    BEGIN
    + """
store = Store.writing(location)
queue = queue_of(store, sys.argv[2])
for asked in sys.stdin:
    claim = queue.claim_next()
    print(f"{claim.key.number} {claim.token}", flush=True)
"""
)
CLONES = {
    "cloned machines": ({"boot": "boot-a"}, {"boot": "boot-b"}),
    "without a machine id": (
        {"boot": "boot-a", "nameless": True},
        {"boot": "boot-b", "nameless": True},
    ),
    "containers of one image": ({"nameless": True}, {"nameless": True}),
}


@pytest.mark.parametrize("location", ["postgresql"], indirect=True)
@pytest.mark.parametrize("names", CLONES)
def test_two_of_one_name_keep_their_trials(
    location: Location, study: StudyRecord, sql: Sql, tmp_path: Path, names: str
) -> None:
    workers = []
    for number, clone in enumerate(CLONES[names]):
        folder = tmp_path / str(number)
        folder.mkdir()
        prefix = on_a_clone(folder, **clone)  # type: ignore[arg-type]  # as it is declared above
        workers.append(
            subprocess.Popen(
                [*prefix, sys.executable, "-c", CLAIMS, location.url, f"w{number}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    claims = []
    for worker in (*workers, *workers):
        say(worker)
        claims.append(line(worker))
    for worker in workers:
        worker.communicate()
    assert claims == ["0 1", "1 1", "2 1", "3 1"]
    assert sql("select count(distinct host), count(*) from fastrcaps_leases") == [(1, 4)]
    assert sql("select sum(deaths) from fastrcaps_runs") == [(0,)]


@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
def test_one_killed_in_a_container_is_found_dead_there(
    location: Location, study: StudyRecord, store: Store, tmp_path: Path
) -> None:
    claim = [sys.executable, "-c", CLAIMS, location.url, "w"]
    script = f"""
import subprocess

for token in (1, 2):
    child = subprocess.Popen({claim!r}, stdin=-1, stdout=-1, text=True)
    child.stdin.write("\\n")
    child.stdin.flush()
    assert child.stdout.readline() == f"0 {{token}}\\n"
    child.kill()
    child.wait()
"""
    subprocess.run([*on_a_clone(tmp_path), sys.executable, "-c", script], check=True)
    (trial,) = store.trials(study)
    assert trial.runs[0].token == 2


def test_pids_of_a_proc_from_outside_are_not_judged(tmp_path: Path) -> None:
    script = (
        "from fastrcaps_search.store.process_identity import ProcessIdentity;"
        "me = ProcessIdentity.current(); print(repr(me.pid_namespace), me.is_known_dead)"
    )
    without = [word for word in on_a_clone(tmp_path) if word != "--mount-proc"]
    done = subprocess.run(
        [*without, sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "'' False\n"
