"""What is measured of devices, and seconds of one of them worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import RunError, StudyMismatchError
from fastrcaps_search.metrics import EpochMetrics, RunSetting
from fastrcaps_search.store.calibrations import (
    Calibration,
    ReferenceTime,
    keep_calibrations,
    nearest,
    network_key,
    read_calibrations,
)
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import SecondsBasis, StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import METRICS, claimed, result_of

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker

SLOW = RunSetting("cpu", "a slow CPU", "2.14", "fp32", 1, "eager-2")
CARD = RunSetting("cuda", "a card", "2.14", "fp32", 1, "graph-1-fp32")


def calibration(
    setting: RunSetting, steps: dict[int, float], *, sharing: int = 1, network: str = "only"
) -> Calibration:
    return Calibration(setting, sharing, {network: steps})


# Two workers on the CPU are the study's layout there; alone each is a fifth faster at batch 1, and
# no faster than a measurement can tell at batch 16.
TWO = calibration(SLOW, {1: 0.012, 16: 0.100}, sharing=2)
ALONE = calibration(SLOW, {1: 0.010, 16: 0.096})
FAST = calibration(CARD, {1: 0.006, 16: 0.010})
TIME = ReferenceTime(TWO, [TWO, ALONE, FAST])


def epoch(size: int, seconds: float = 8.0) -> EpochMetrics:
    return replace(METRICS, batch_size=size, training_seconds=seconds)


def computed(
    size: int, setting: RunSetting, sharing: int, *, time: ReferenceTime = TIME
) -> float | None:
    return time.computed_seconds(epoch(size), setting=setting, sharing=sharing, network="only")


class TestComputedSeconds:
    """An epoch of 8 s, counted in seconds of the slow CPU with two workers."""

    def test_what_trained_as_the_reference_does_is_measured(self) -> None:
        assert computed(1, SLOW, 2) is None
        assert computed(16, SLOW, 2) is None

    @pytest.mark.parametrize(
        ("size", "seconds"),
        [
            (1, 8.0 * 0.012 / 0.006),
            (16, 8.0 * 0.100 / 0.010),
            # A fifth of the way from 1 to 16 on both.
            (4, 8.0 * (0.012 + 3 * 0.088 / 15) / (0.006 + 3 * 0.004 / 15)),
            # Above the largest in proportion, on both.
            (64, 80.0),
        ],
    )
    def test_of_another_device_it_is_computed_by_the_batch_size(
        self, size: int, seconds: float
    ) -> None:
        assert computed(size, CARD, 1) == pytest.approx(seconds)

    def test_alone_on_the_reference_device_it_is_computed_where_that_makes_a_difference(
        self,
    ) -> None:
        assert computed(1, SLOW, 1) == pytest.approx(8.0 * 1.2)
        assert computed(16, SLOW, 1) is None

    def test_without_a_calibration_of_its_own_the_nearest_counts(self) -> None:
        # Three workers on the CPU: as two, and therefore as the reference.
        assert computed(1, SLOW, 3) is None
        # Beside a reference that trained alone, nothing is known of two.
        alone = ReferenceTime(ALONE, [ALONE, FAST])
        assert computed(1, SLOW, 2, time=alone) is None
        # Of other versions or threads, the nearest is only the nearest.
        assert computed(1, replace(SLOW, threads=4), 1, time=alone) == 8.0
        assert computed(16, CARD, 4) == pytest.approx(80.0)
        assert computed(16, replace(CARD, torch_version="2.15"), 1) == pytest.approx(80.0)

    def test_a_device_that_is_not_calibrated_is_refused(self) -> None:
        other = replace(CARD, device_name="another card")
        with pytest.raises(
            RunError,
            match=r"^another card must be calibrated before it trains for this study, but is not; "
            r"start the `worker` command on its machine, which does so$",
        ):
            computed(16, other, 1)

    def test_the_nearest_has_the_same_versions_then_threads_then_neighbours(self) -> None:
        four = calibration(replace(SLOW, threads=4), {1: 1.0})
        eight = calibration(replace(SLOW, threads=8), {1: 1.0})
        newer = calibration(replace(SLOW, threads=7, torch_version="3"), {1: 1.0})
        known = [TWO, ALONE, four, eight, newer, FAST]
        assert nearest(known, replace(SLOW, threads=7), 1) == eight
        assert nearest(known, replace(SLOW, threads=3), 1) == four
        assert nearest(known, SLOW, 5) == TWO
        assert nearest(known, replace(SLOW, threads=1, torch_version="3"), 1) == newer

    def test_networks_have_ratios_of_their_own(self) -> None:
        here = Calibration(CARD, 1, {"full-own": {16: 0.02}, "reduced-shared": {16: 0.01}})
        there = Calibration(SLOW, 1, {"full-own": {16: 0.10}, "reduced-shared": {16: 0.08}})
        time = ReferenceTime(there, [there, here])
        found = [
            time.computed_seconds(epoch(16), setting=CARD, sharing=1, network=network)
            for network in ("full-own", "reduced-shared")
        ]
        assert found == [pytest.approx(40.0), pytest.approx(64.0)]


@pytest.mark.parametrize(
    ("network", "key"),
    [
        ((None, None), "only"),
        (("full", False), "full-own"),
        (("reduced", True), "reduced-shared"),
        (("full", None), "full"),
    ],
)
def test_networks_have_names(network: tuple[str | None, bool | None], key: str) -> None:
    assert network_key(*network) == key


class TestKeeping:
    """One place for what was measured, and whose seconds count."""

    def stored(self, store: Store, study: StudyRecord) -> list[Calibration]:
        return store.read(lambda connection: read_calibrations(connection, study.study_id))

    def test_the_first_measurement_of_a_setting_stands(
        self, store: Store, study: StudyRecord
    ) -> None:
        assert keep_calibrations(store, study, [TWO, ALONE]) == [TWO, ALONE]
        again = calibration(SLOW, {1: 9.0}, sharing=2)
        assert keep_calibrations(store, study, [again, FAST]) == [TWO, ALONE, FAST]
        assert self.stored(store, study) == [TWO, ALONE, FAST]

    def test_the_device_that_is_calibrated_first_is_the_reference(
        self, store: Store, study: StudyRecord
    ) -> None:
        assert study.reference_device is None
        keep_calibrations(store, study, [TWO, ALONE])
        keep_calibrations(store, study, [FAST])
        assert store.study(study.name).reference_device == "a slow CPU"

    def test_one_that_was_named_stays_the_reference(
        self, store: Store, study: StudyRecord, location: Location, definition: StudyDefinition
    ) -> None:
        enter_study(location, definition, seed=None, budget=4, reference_device="a card")
        keep_calibrations(store, study, [TWO, ALONE])
        assert store.study(study.name).reference_device == "a card"
        # Another may be named until a trial has begun, whatever is calibrated.
        enter_study(location, definition, seed=None, budget=4, reference_device="a slow CPU")
        enter_study(location, definition, seed=None, budget=4)
        assert store.study(study.name).reference_device == "a slow CPU"

    def test_it_is_frozen_with_the_first_trial(
        self,
        store: Store,
        study: StudyRecord,
        location: Location,
        definition: StudyDefinition,
        make_queue: QueueMaker,
    ) -> None:
        keep_calibrations(store, study, [TWO])
        claimed(make_queue())
        enter_study(location, definition, seed=None, budget=4, reference_device="a slow CPU")
        with pytest.raises(
            StudyMismatchError,
            match=r'^study "tiny" must keep its reference device, a slow CPU, as its first trial '
            r"has begun, got a card; leave --reference-device out, or choose another --storage$",
        ):
            enter_study(location, definition, seed=None, budget=4, reference_device="a card")
        assert store.study(study.name).reference_device == "a slow CPU"

    def test_a_study_that_is_defined_anew_is_measured_anew(
        self, store: Store, study: StudyRecord, location: Location, definition: StudyDefinition
    ) -> None:
        keep_calibrations(store, study, [TWO])
        enter_study(location, replace(definition, epochs=3), seed=None, budget=4)
        assert self.stored(store, study) == []
        assert store.study(study.name).reference_device is None


class TestRuns:
    """Epochs and runs as they are stored."""

    @pytest.fixture(autouse=True)
    def calibrated(self, store: Store, study: StudyRecord) -> None:
        # Alone on the CPU is its layout here.
        keep_calibrations(store, study, [ALONE, FAST])

    def train(self, lease: RunLease, setting: RunSetting, *epochs: EpochMetrics) -> None:
        lease.begin(setting, fresh=epochs[0].epoch == 1)
        for metrics in epochs:
            lease.store_epoch(metrics, setting=setting)

    def test_both_seconds_of_an_epoch_are_kept(
        self, store: Store, study: StudyRecord, make_queue: QueueMaker
    ) -> None:
        queue = make_queue()
        first = RunLease(store, claimed(queue))
        self.train(first, SLOW, replace(epoch(16), epoch=1))
        # Its machine is switched off; a card goes on.
        first.release()
        second = RunLease(store, claimed(make_queue("w1")))
        assert second.claim.key == first.claim.key
        self.train(second, CARD, replace(epoch(16, 2.0), epoch=2))
        ((one, two),) = (trial.epochs for trial in store.trials(study, epochs=True))
        assert (one.metrics.training_seconds, one.computed_seconds, one.seconds) == (8.0, None, 8)
        assert two.metrics.training_seconds == 2.0
        assert two.computed_seconds == two.seconds == pytest.approx(2.0 * 0.096 / 0.010)

    def test_a_run_has_both_and_says_how_much_was_computed(
        self, store: Store, study: StudyRecord, make_queue: QueueMaker
    ) -> None:
        queue = make_queue()
        bases = []
        for measured, there, count in ((10.0, 27.2, 1), (4.0, 38.4, 2), (16.0, 16.0, 0)):
            lease = RunLease(store, claimed(queue))
            self.train(lease, CARD, replace(epoch(16), epoch=1))
            done = replace(
                result_of(),
                training_seconds=there,
                measured_seconds=measured,
                computed_epochs=count,
                best_epoch=2,
            )
            lease.finish(done)
            (run,) = store.trials(study)[lease.claim.key.number].runs
            assert (run.training_seconds, run.measured_seconds) == (there, measured)
            bases.append(run.seconds_basis)
        assert bases == [SecondsBasis.PARTLY, SecondsBasis.COMPUTED, SecondsBasis.MEASURED]

    def test_a_run_on_a_device_without_calibration_does_not_begin(
        self, store: Store, study: StudyRecord, make_queue: QueueMaker
    ) -> None:
        lease = RunLease(store, claimed(make_queue()))
        with pytest.raises(RunError, match=r"^another must be calibrated before it trains"):
            lease.begin(replace(CARD, device_name="another"), fresh=True)
        assert store.trials(study)[0].runs[0].setting is None
