"""Under which protocol the values came to be."""

from __future__ import annotations

from dataclasses import dataclass, fields

from fastrcaps_search.analysis.summary import StudySummary
from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report import text
from fastrcaps_search.report.panel import Panel
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import Values

OTHER_KEYS = (
    *("min_accuracy", "decay_rate", "decay_steps", "cycle_epochs", "cycle_growth"),
    *("polynomial_power", "routing_gradient", "reconstruction_weight"),
)
"""Keys of a study file that are told only where they differ from their defaults."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of the protocol."""

    label: str
    value: str


def gather(view: ReportView) -> tuple[Fact, ...]:
    """How the values came to be: split, epochs, devices, versions."""
    study, summary = view.study, view.summary
    definition = study.definition
    found = {
        "Accuracy": _evaluation(definition),
        "Training": _training(definition),
        "Repeats": _repeats(study.front_runs, view.stored.repeats_left),
        "Learning rates": _learning_rates(definition),
        "Batch sizes": _batch_sizes(definition),
        **_others(definition),
        "Seeds": f"from {study.seed}",
        "Devices": text.listed(summary.devices),
        "Workers per device": text.listed(summary.sharing),
        "Versions": _versions(summary, view.version),
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
        f"{text.plural(runs, 'run')} per trial; {definition.precision}"
    )


def _repeats(planned: int, left: int) -> str:
    if not planned:
        return text.NOTHING
    runs = text.plural(planned, "run")
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


PANEL = Panel(
    name="protocol",
    title="Protocol",
    gather=gather,
    module=__file__,
)
