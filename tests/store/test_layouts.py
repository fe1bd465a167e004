from __future__ import annotations

from dataclasses import replace

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.layouts import (
    WorkerLayout,
    keep_layout,
    stored_layouts,
)
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store

TWO, ONE = WorkerLayout(2, 1), WorkerLayout(1, 2)


class TestKeeping:
    def test_a_kept_layout_comes_back(self, store: Store, study: StudyRecord) -> None:
        assert keep_layout(store, study, TWO, device_name="a CPU", cores=2) == TWO
        assert stored_layouts(store, study, cores=2) == {"a CPU": TWO}

    def test_the_first_stands(self, store: Store, study: StudyRecord) -> None:
        keep_layout(store, study, TWO, device_name="a CPU", cores=2)
        assert keep_layout(store, study, ONE, device_name="a CPU", cores=2) == TWO
        assert stored_layouts(store, study, cores=2) == {"a CPU": TWO}

    def test_each_device_number_of_cores_and_study_has_its_own(
        self, store: Store, study: StudyRecord, location: Location, definition: StudyDefinition
    ) -> None:
        other = enter_study(location, replace(definition, name="other"), seed=None, budget=1)
        keep_layout(store, study, TWO, device_name="a CPU", cores=2)
        for where in ((study, "a card", 2), (study, "a CPU", 4), (other, "a CPU", 2)):
            assert keep_layout(store, where[0], ONE, device_name=where[1], cores=where[2]) == ONE
        assert stored_layouts(store, study, cores=2) == {"a CPU": TWO, "a card": ONE}
        assert stored_layouts(store, study, cores=4) == {"a CPU": ONE}
        assert stored_layouts(store, other, cores=2) == {"a CPU": ONE}

    def test_a_study_that_is_defined_anew_chooses_anew(
        self, store: Store, study: StudyRecord, location: Location, definition: StudyDefinition
    ) -> None:
        keep_layout(store, study, TWO, device_name="a CPU", cores=2)
        enter_study(location, definition, seed=None, budget=9)
        assert stored_layouts(store, study, cores=2) == {"a CPU": TWO}
        enter_study(location, replace(definition, epochs=3), seed=None, budget=9)
        assert stored_layouts(store, study, cores=2) == {}


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (WorkerLayout(1, 1), "1 worker with 1 thread"),
        (WorkerLayout(1, 8), "1 worker with 8 threads"),
        (WorkerLayout(4, 1), "4 workers with 1 thread"),
        (WorkerLayout(2, 2), "2 workers with 2 threads"),
    ],
)
def test_words(layout: WorkerLayout, words: str) -> None:
    assert layout.words == words
