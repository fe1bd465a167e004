"""Which training seconds were measured on the reference device, and what others are worth.

All others are computed (``store.calibrations``). What that is worth follows from configurations
that have both.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.store.records import EpochRecord, SecondsBasis, StudyRecord
from fastrcaps_search.store.trials import TrialRecord
from fastrcaps_search.words import plural


@dataclass(frozen=True, slots=True)
class SecondsCheck:
    """Computed seconds beside measured ones, of configurations that have both.

    Attributes:
        pairs: How many configurations.
        median: Median of how far the computed seconds are off the measured ones, whichever way, a
            fraction of these.
        largest: The largest of that.
        bias: Median with the sign: above zero where computed ones are too long.
    """

    pairs: int
    median: float
    largest: float
    bias: float


@dataclass(frozen=True, slots=True)
class ReferenceSeconds:
    """Where the training seconds of a study's complete trials come from.

    Attributes:
        device: The reference device; ``None`` where none is known yet.
        trials: How many complete trials have seconds of each basis.
        check: What the computation is worth; ``None`` where no configuration has both, or epochs
            were not read.
    """

    device: str | None
    trials: Counter[SecondsBasis]
    check: SecondsCheck | None

    @property
    def computed(self) -> int:
        """Trials whose seconds were computed in whole or in part."""
        return self.trials.total() - self.trials[SecondsBasis.MEASURED]

    @property
    def words(self) -> str:
        """How many were measured and how many computed, in a sentence without its end."""
        counts = ", ".join(
            f"{self.trials[basis]} {basis}" for basis in SecondsBasis if self.trials[basis]
        )
        return f"those of {self.device}{f': {counts}' if counts else ''}"

    @property
    def worth(self) -> str:
        """What the computation is worth, in a sentence without its end; by epochs."""
        check = self.check
        if check is None:
            return "not checked yet: no configuration has been trained both ways"
        return (
            f"checked on {plural(check.pairs, 'configuration')} trained both ways: "
            f"off by {100 * check.median:.1f} % in the median (bias {100 * check.bias:+.1f} %), "
            f"{100 * check.largest:.1f} % at the most"
        )


def reference_seconds(study: StudyRecord, trials: Sequence[TrialRecord]) -> ReferenceSeconds:
    """Where the seconds come from; the check rests on epochs where the trials carry them."""
    bases = Counter(trial.seconds_basis for trial in trials if trial.values is not None)
    return ReferenceSeconds(study.reference_device, bases, check(trials))


def check(trials: Iterable[TrialRecord]) -> SecondsCheck | None:
    """Compare computed with measured seconds, a pair for each configuration that has both.

    Of the epochs of a batch size that were measured and of those that were computed the mean
    seconds per image are taken, and summed over the batch sizes that have both. An epoch counts
    with the most workers that shared its device. Beside one with fewer they came or went in it,
    and it tells nothing.
    """
    found = [deviation for trial in trials if (deviation := _deviation(trial)) is not None]
    if not found:
        return None
    sizes = [abs(deviation) for deviation in found]
    return SecondsCheck(len(found), median(sizes), max(sizes), bias=median(found))


def _deviation(trial: TrialRecord) -> float | None:
    """By which part of the measured seconds the computed ones of a configuration are off."""
    shared = {(one.run, one.metrics.epoch): (one.setting, one.sharing) for one in trial.epochs}
    steady = [one for one in trial.epochs if not _is_beside_fewer(one, shared)]
    computed, measured = (_per_image(steady, is_computed=one) for one in (True, False))
    both = computed.keys() & measured.keys()
    expected = sum(measured[size] for size in both)
    return sum(computed[size] for size in both) / expected - 1 if expected else None


def _is_beside_fewer(
    epoch: EpochRecord, shared: Mapping[tuple[int, int], tuple[RunSetting, int]]
) -> bool:
    """Whether fewer workers shared the device in the epoch before or after, in its setting."""
    beside = (shared.get((epoch.run, epoch.metrics.epoch + step)) for step in (-1, 1))
    return any(
        one is not None and one[0] == epoch.setting and one[1] < epoch.sharing for one in beside
    )


def _per_image(epochs: Iterable[EpochRecord], *, is_computed: bool) -> dict[int, float]:
    """Mean seconds per image by batch size."""
    found: dict[int, list[float]] = defaultdict(list)
    for epoch in epochs:
        if (epoch.computed_seconds is not None) is is_computed and epoch.metrics.samples:
            found[epoch.metrics.batch_size].append(epoch.seconds / epoch.metrics.samples)
    return {size: fmean(each) for size, each in found.items()}
