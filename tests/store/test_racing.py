"""Claims are granted only if all is still as it was read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Connection

from fastrcaps_search.errors import StudyMismatchError
from fastrcaps_search.search.configurations import configurations
from fastrcaps_search.store.claiming import Claim, Claimant
from fastrcaps_search.store.ending import reap
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import Purpose, RunKey, StudyRecord
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord
from tests.store.workers import Clock, claimed, complete, queue_of, trial_of

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker, Sql

ROUNDS = 4


@pytest.fixture
def claimant(store: Store, study: StudyRecord) -> Claimant:
    return Claimant(store=store, study=study, worker="w0", device="cpu")


@pytest.fixture
def begin(claimant: Claimant) -> Callable[[int], Claim | None]:
    """Begins a trial with the configuration of an index."""
    choices = list(configurations(claimant.study.definition).items())

    def one(index: int) -> Claim | None:
        key, parameters = choices[index]
        return claimant.begin_trial(parameters, key)

    return one


def meeting(claim: Callable[[], object], store: Store, seen: threading.Barrier) -> object:
    """Claim, but meet the other between the first reading and the first writing."""
    write, met = store.write, False

    def write_together(work: Callable[[Connection], object]) -> object:
        nonlocal met
        if not met:
            met = True
            seen.wait(60)
        return write(work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "write", write_together)
        return claim()


class TestNewTrials:
    def test_a_configuration_is_begun_once_and_numbers_follow_each_other(
        self, begin: Callable[[int], Claim | None], store: Store, study: StudyRecord
    ) -> None:
        first = begin(3)
        assert first is not None
        assert (first.key, first.token) == (RunKey(0, 0), 1)
        # Proposed before another worker began trial 0.
        assert begin(3) is None
        assert len(store.trials(study)) == len(store.leases(study)) == 1
        assert len(store.claims(study)) == 1
        second = begin(1)
        assert second is not None
        assert second.key == RunKey(1, 0)

    def test_the_budget_is_that_of_the_moment(
        self,
        begin: Callable[[int], Claim | None],
        store: Store,
        study: StudyRecord,
        sql: Sql,
        location: Location,
    ) -> None:
        assert all(begin(number) for number in range(4))
        assert begin(4) is None
        assert len(store.trials(study)) == 4
        enter_study(location, study.definition, seed=None, budget=5)
        assert begin(4) is not None

    def test_none_is_begun_of_a_study_that_is_another_by_now(
        self,
        begin: Callable[[int], Claim | None],
        make_queue: QueueMaker,
        store: Store,
        study: StudyRecord,
        location: Location,
    ) -> None:
        queue = make_queue()
        enter_study(location, replace(study.definition, epochs=3), seed=None, budget=4)
        attempts: list[Callable[[], object]] = [
            lambda: begin(0),
            queue.claim_next,
            queue.is_over,
        ]
        for attempt in attempts:
            with pytest.raises(StudyMismatchError, match="was defined anew before its first"):
                attempt()
        assert store.trials(study) == []


class TestRuns:
    @pytest.fixture
    def left(self, make_queue: QueueMaker, store: Store, study: StudyRecord) -> TrialRecord:
        """A trial whose worker has left it."""
        RunLease(store, claimed(make_queue())).release()
        return trial_of(store, study)

    def test_one_is_taken_as_it_was_read_and_by_one_alone(
        self, claimant: Claimant, left: TrialRecord, store: Store, study: StudyRecord
    ) -> None:
        taken = claimant.take(left, 0, Purpose.TRAIN)
        assert taken is not None
        assert (taken.key, taken.token) == (RunKey(0, 0), 2)
        assert claimant.take(left, 0, Purpose.TRAIN) is None
        RunLease(store, taken).release()
        # Nobody holds it, but somebody has.
        assert claimant.take(left, 0, Purpose.TRAIN) is None
        assert [claim.token for claim in store.claims(study)] == [1, 2]

    def test_one_that_has_ended_is_not_trained_again_by_who_has_not_seen_that(
        self, claimant: Claimant, left: TrialRecord, store: Store, study: StudyRecord, sql: Sql
    ) -> None:
        sql("update fastrcaps_runs set finished_at = 5.0, accuracy = 0.5")
        assert claimant.take(left, 0, Purpose.TRAIN) is None
        assert claimant.take(trial_of(store, study), 0, Purpose.TEST) is not None

    def test_a_new_one_is_inserted_once(
        self, claimant: Claimant, left: TrialRecord, store: Store, study: StudyRecord
    ) -> None:
        assert claimant.take(left, 1, Purpose.TRAIN) is not None
        assert claimant.take(left, 1, Purpose.TRAIN) is None
        assert len(store.leases(study)) == 1

    def test_one_that_is_held_stays_as_it_is(
        self, claimant: Claimant, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        held = claimed(make_queue())
        before = store.trials(study)
        # Read as it is, but for who holds it.
        assert claimant.take(before[0], 0, Purpose.TRAIN) is None
        assert store.trials(study) == before
        assert [claim.token for claim in store.claims(study)] == [1]
        assert RunLease(store, held).renew()


class TestReaping:
    def test_a_lease_that_was_renewed_after_it_was_read_is_left(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord, clock: Clock
    ) -> None:
        lease = RunLease(store, claimed(make_queue()))
        clock.kill()
        (seen,) = store.leases(study)
        assert lease.renew()
        assert reap(store, study, [seen])
        assert [held.token for held in store.leases(study)] == [1]
        (seen,) = store.leases(study)
        assert reap(store, study, [seen])
        assert store.leases(study) == []

    def test_one_that_was_taken_since_is_left(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord, clock: Clock, sql: Sql
    ) -> None:
        claimed(make_queue())
        clock.kill()
        (seen,) = store.leases(study)
        again = claimed(make_queue("w1"))
        assert again.token == 2
        # In the same moment.
        sql(f"update fastrcaps_leases set renewed_at = {seen.renewed_at!r}")
        assert reap(store, study, [seen])
        assert [held.worker for held in store.leases(study)] == ["w1"]

    def test_where_all_are_well_nothing_is_written(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        claimed(make_queue())
        assert not reap(store, study, store.leases(study))


# Python's filters of warnings are those of all threads, of which each would leave its own.
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
class TestAtOnce:
    @pytest.fixture
    def two(self, location: Location, study: StudyRecord) -> Iterator[tuple[Store, Store]]:
        with closing(Store.writing(location)) as one, closing(Store.writing(location)) as other:
            yield one, other

    def race(self, work: Sequence[Callable[[], object]]) -> list[object]:
        """Do all pieces of work at once, each in a thread of its own."""
        start = threading.Barrier(len(work))

        def run(piece: Callable[[], object]) -> object:
            start.wait()
            return piece()

        with ThreadPoolExecutor(len(work)) as pool:
            return list(pool.map(run, work))

    def test_two_that_read_the_same_get_different_runs(
        self, two: tuple[Store, Store], study: StudyRecord, store: Store, location: Location
    ) -> None:
        enter_study(location, study.definition, seed=None, budget=2 * ROUNDS)
        queues = [queue_of(each, study, f"w{index}") for index, each in enumerate(two)]
        keys = []
        for _ in range(ROUNDS):
            # Both have read the same before either claims.
            seen = threading.Barrier(2)
            found = self.race(
                [
                    partial(meeting, queue.claim_next, each, seen)
                    for queue, each in zip(queues, two, strict=True)
                ]
            )
            keys += [claim.key for claim in found if isinstance(claim, Claim)]
        assert sorted(keys) == [RunKey(number, 0) for number in range(2 * ROUNDS)]
        trials = store.trials(study)
        assert len({trial.configuration_key for trial in trials}) == 2 * ROUNDS

    def test_of_two_that_take_one_run_one_gets_it(
        self, two: tuple[Store, Store], study: StudyRecord, store: Store, make_queue: QueueMaker
    ) -> None:
        complete(store, claimed(make_queue()))
        claimants = [
            Claimant(store=each, study=study, worker=f"w{index}", device="cpu")
            for index, each in enumerate(two)
        ]
        for run in range(1, ROUNDS + 1):
            trial = trial_of(store, study)
            work = [partial(one.take, trial, run, Purpose.TRAIN) for one in claimants]
            assert [claim is None for claim in self.race(work)].count(False) == 1
        assert [lease.run for lease in store.leases(study)] == list(range(1, ROUNDS + 1))
