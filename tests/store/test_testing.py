from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fastrcaps_search.analysis.remaining_work import untested_front
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search.queue import Idle
from fastrcaps_search.store.claiming import Claim
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.records import Purpose, RunKey, StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import claimed, complete
from tests.triples import values_of

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker


class TestTesting:
    def test_only_the_front_is_tested_and_once(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        queue = make_queue()
        for accuracy, seconds in [(0.9, 5.0), (0.8, 6.0), (0.7, 1.0), (0.9, 5.0)]:
            complete(store, claimed(queue), values_of(accuracy, seconds, 10))
        tested = []
        while isinstance(claim := queue.claim_next(), Claim):
            assert claim.purpose is Purpose.TEST
            tested.append(claim.key.number)
            lease = RunLease(store, claim)
            lease.store_test_accuracy(0.85)
            lease.store_test_accuracy(0.1)  # a second reading changes nothing
            lease.hand_back()
        assert sorted(tested) == [0, 2, 3]
        assert claim is Idle.DONE
        found = store.trials(study)
        assert [trial.test_accuracy for trial in found] == [0.85, None, 0.85, 0.85]
        assert untested_front(study, found) == []

    def test_a_study_that_evaluates_on_the_test_set_has_nothing_left_to_test(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        complete(store, claimed(make_queue()))
        on_test = StudyDefinition.from_dict({**study.definition.to_dict(), "evaluate_on": "test"})
        trials = store.trials(study)
        assert untested_front(study, trials) == [RunKey(0, 0)]
        assert untested_front(replace(study, definition=on_test), trials) == []
