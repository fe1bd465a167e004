"""Many processes that enter an empty database in the same moment."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.store.location import Location
from fastrcaps_search.store.store import Store

if TYPE_CHECKING:
    from tests.store.conftest import ChildStarter

pytestmark = pytest.mark.slow

# Forks when everything is imported; the closing of a pipe starts all at once.
ENTER_AT_ONCE = """
import json, os, sys, traceback
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import locate

location, processes, studies = locate(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])


def enter(number):
    name = f"study-{number % studies}"
    definition = StudyDefinition.from_dict({"name": name, "network": "lenet5"})
    study = enter_study(location, definition, seed=None, budget=number + 1)
    found = json.dumps([study.name, study.study_id, study.uid])
    os.write(1, (found + "\\n").encode())


waiting, starting = os.pipe()
children = []
for number in range(processes):
    pid = os.fork()
    if pid:
        children.append(pid)
        continue
    try:
        os.close(starting)
        os.read(waiting, 1)
        enter(number)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
os.close(starting)
sys.exit(sum(os.waitpid(child, 0)[1] != 0 for child in children))
"""
PROCESSES = (8, pytest.param(16, marks=pytest.mark.endurance))


def enter_at_once(
    start_child: ChildStarter, location: Location, *, processes: int, studies: int
) -> list[tuple[str, int, str]]:
    starter = start_child(ENTER_AT_ONCE, location.url, str(processes), str(studies))
    assert starter.stdout is not None
    found = [tuple(json.loads(line)) for line in starter.stdout]
    assert starter.wait() == 0
    return found


@pytest.mark.parametrize("processes", PROCESSES)
def test_all_agree_on_one_study(
    location: Location, start_child: ChildStarter, processes: int
) -> None:
    found = enter_at_once(start_child, location, processes=processes, studies=1)
    assert len(found) == processes
    assert len(set(found)) == 1
    name, study_id, uid = found[0]
    with closing(Store.reading(location)) as store:
        study = store.study(name)
        assert store.study_names() == ["study-0"]
    # The largest number that was asked for.
    assert (study.study_id, study.uid, study.budget) == (study_id, uid, processes)


@pytest.mark.parametrize("processes", PROCESSES)
def test_each_study_is_entered_once(
    location: Location, start_child: ChildStarter, processes: int
) -> None:
    found = enter_at_once(start_child, location, processes=processes, studies=processes)
    names = {f"study-{number}" for number in range(processes)}
    assert {name for name, _, _ in found} == names
    assert len({study_id for _, study_id, _ in found}) == processes
    assert len({uid for _, _, uid in found}) == processes
    with closing(Store.reading(location)) as store:
        assert {
            (study.name, study.study_id, study.uid)
            for study in (store.study(name) for name in store.study_names())
        } == set(found)
