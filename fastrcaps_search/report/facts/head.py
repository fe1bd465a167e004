"""The head of the page: progress, and under which protocol the values came to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from fastrcaps_search.analysis.summary import StudySummary
from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report import text
from fastrcaps_search.store.records import StudyRecord, TrialRecord, Values

OTHER_KEYS = (
    *("min_accuracy", "decay_rate", "decay_steps", "cycle_epochs", "cycle_growth"),
    *("polynomial_power", "routing_gradient", "reconstruction_weight"),
)
"""Keys of a study file that are told only where they differ from their defaults."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure of the head with what it is and what belongs to it."""

    label: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of the protocol."""

    label: str
    value: str


def tiles(summary: StudySummary, front: Sequence[TrialRecord]) -> tuple[Tile, ...]:
    """Progress, the extremes of the front and its hypervolume."""
    progress = Tile(
        "trials finished", f"{summary.finished} of {summary.budget}", _progress(summary)
    )
    valued = [(trial, trial.values) for trial in front if trial.values is not None]
    # A study may have a box and no front any more: a repeat of its only trial diverged.
    if summary.hypervolume is None or not valued:
        return (progress,)

    def extreme(label: str, low: bool, column: int, unit: str) -> Tile:
        pick = min if low else max
        end = pick(values.as_tuple()[column] for _, values in valued)
        numbers = [trial.number for trial, values in valued if values.as_tuple()[column] == end]
        words = text.numbered("trial", sorted(numbers), limit=3)
        return Tile(label, _shown(end, column) + unit, words)

    return (
        progress,
        extreme("highest accuracy", False, 0, ""),
        extreme("shortest training", True, 1, "\u00a0s"),
        extreme("fewest parameters", True, 2, ""),
        Tile("hypervolume", f"{summary.hypervolume:.3f}", f"{_plural(len(front))} on the front"),
    )


def protocol(
    study: StudyRecord, summary: StudySummary, *, repeats_left: int, version: str
) -> tuple[Fact, ...]:
    """How the values came to be: split, epochs, devices, versions."""
    definition = study.definition
    found = {
        "Accuracy": _evaluation(definition),
        "Training": _training(definition),
        "Repeats": _repeats(study.repeats, repeats_left),
        "Learning rates": _learning_rates(definition),
        "Batch sizes": _batch_sizes(definition),
        **_others(definition),
        "Seeds": f"from {study.seed}",
        "Devices": text.listed(summary.devices),
        "Workers per device": text.listed(summary.sharing),
        "Versions": _versions(summary, version),
        "Hypervolume": _hypervolume(summary),
        "Paper's count": _papers_count(definition),
    }
    if summary.running and summary.eta_seconds:
        found["Left"] = f"about {text.duration(summary.eta_seconds)}"
    return tuple(Fact(key, value) for key, value in found.items() if value != text.NOTHING)


def _papers_count(definition: StudyDefinition) -> str:
    """The paper counts the coupling coefficients as parameters, which are not learned."""
    added = definition.architecture.coupling_coefficients
    return f"learned parameters plus {added:,} coupling coefficients" if added else text.NOTHING


def _shown(value: float, column: int) -> str:
    return (text.percent, text.seconds, text.count)[column](value)


def _plural(number: int) -> str:
    return f"{number} trial{'' if number == 1 else 's'}"


def _progress(summary: StudySummary) -> str:
    infeasible = f", {summary.infeasible} of them infeasible" if summary.infeasible else ""
    counts = {
        f"complete{infeasible}": summary.complete,
        "stopped early": summary.stopped,
        "failed": summary.failed,
        "running": summary.running,
    }
    found = [f"{number} {state}" for state, number in counts.items() if number]
    return ", ".join(found) or "none started yet"


def _evaluation(definition: StudyDefinition) -> str:
    split, size = definition.evaluate_on.images, definition.evaluation_size
    runs = definition.runs_per_trial
    mean = f", mean over {runs} runs" if runs > 1 else ""
    return f"highest over the epochs on the {split} ({size:,} images){mean}"


def _training(definition: StudyDefinition) -> str:
    runs = definition.runs_per_trial
    shifts = ", shifted by up to 2 pixels" if definition.shifts else ""
    return (
        f"{definition.epochs_in_words} of {definition.split_size:,} images{shifts}; "
        f"{runs} run{'' if runs == 1 else 's'} per trial; {definition.precision}"
    )


def _repeats(planned: int, left: int) -> str:
    if not planned:
        return text.NOTHING
    runs = f"{planned} run{'' if planned == 1 else 's'}"
    return f"until each trial on or near the front has {runs}, {left or 'none'} to go"


def _learning_rates(definition: StudyDefinition) -> str:
    space = definition.space
    low = space.lr_min[0] if space and space.lr_min else definition.lr_min
    high = space.lr_max[1] if space and space.lr_max else definition.lr_max
    return f"{low:g} to {high:g}"


def _batch_sizes(definition: StudyDefinition) -> str:
    boundaries = definition.boundaries_within(definition.offered_epochs[-1])
    grows = f"growing after {text.numbered('epoch', boundaries)}" if boundaries else "not growing"
    return f"{definition.batch_size} where constant; AdaBatch {grows}"


def _others(definition: StudyDefinition) -> dict[str, str]:
    """The other keys, but for those that the space varies: there each trial has its own value."""
    defaults = {field.name: field.default for field in fields(definition)}
    fixed = [key for key in OTHER_KEYS if not (definition.space and definition.space[key])]
    values = {key: getattr(definition, key) for key in fixed}
    return {
        key.replace("_", " ").capitalize(): str(value)
        for key, value in values.items()
        if value != defaults[key]
    }


def _versions(summary: StudySummary, version: str) -> str:
    return ", ".join(
        [f"fastrcaps-search {version}", *map("torch {}".format, summary.torch_versions)]
    )


def _hypervolume(summary: StudySummary) -> str:
    box = summary.box
    if box is None or summary.hypervolume is None:
        return text.NOTHING
    edges = zip(*(getattr(box, objective.name) for objective in OBJECTIVES), strict=True)
    worst, best = (_point(Values(*edge)) for edge in edges)
    return (
        f"{summary.hypervolume:.3f} of the box from ({worst}) to ({best}), fixed with the first "
        "complete trial; accuracy counts from that of guessing, the others by their logarithm"
    )


def _point(values: Values) -> str:
    return (
        f"{text.percent(values.accuracy)}, {text.seconds(values.training_seconds)}\u00a0s, "
        f"{text.count(round(values.parameters))} parameters"
    )
