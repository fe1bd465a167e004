"""Under which protocol the values came to be."""

from __future__ import annotations

from dataclasses import fields

from fastrcaps_search.analysis.reference_seconds import ReferenceSeconds
from fastrcaps_search.analysis.summary import StudySummary
from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.definition.release import release
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report import text
from fastrcaps_search.report.panel import Panel
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.words import numbered, plural

OTHER_KEYS = (
    *("min_accuracy", "decay_rate", "decay_steps", "cycle_epochs", "cycle_growth"),
    *("polynomial_power", "routing_gradient", "reconstruction_weight"),
)
"""Keys of a study file that are told only where they differ from their defaults."""


def gather(view: ReportView) -> dict[str, str]:
    """How the values came to be: split, epochs, devices, versions; empty where there is none."""
    definition, summary = view.definition, view.summary
    runs, planned = definition.runs_per_trial, view.study.front_runs
    split, size = definition.evaluate_on.images, definition.evaluation_size
    mean = f", mean over {runs} runs" if runs > 1 else ""
    shifts = ", shifted by up to 2 pixels" if definition.shifts else ""
    boundaries = definition.boundaries_within(definition.offered_epochs[-1])
    grows = f"growing after {numbered('epoch', boundaries)}" if boundaries else "not growing"
    torch = "".join(f", torch {version}" for version in summary.torch_versions)
    # The paper counts these as parameters, which are not learned.
    added = definition.architecture.coupling_coefficients
    is_left = (summary.running or summary.interrupted) and summary.eta_seconds
    found = {
        "Accuracy": f"highest over the epochs on the {split} ({size:,} images){mean}",
        "Training": f"{definition.epochs_in_words} of {definition.split_size:,} images{shifts}; "
        f"{plural(runs, 'run')} per trial; {definition.precision}",
        "Repeats": planned
        and f"until each trial on or near the front has {plural(planned, 'run')}, "
        f"{len(summary.work.repeats) or 'none'} to go",
        "Learning rates": _learning_rates(definition),
        "Batch sizes": f"{definition.batch_size} where constant; AdaBatch {grows}",
        **_others(definition),
        "Seeds": f"from {view.study.seed}",
        "Devices": ", ".join(summary.devices),
        "Training seconds": _seconds(summary.seconds),
        "Workers per device": ", ".join(map(str, summary.sharing)),
        "Versions": f"fastrcaps-search {release()}{torch}",
        "Hypervolume": _hypervolume(summary),
        "Paper's count": added and f"learned parameters plus {added:,} coupling coefficients",
        "Left": is_left and f"about {text.duration(is_left)}",
    }
    return {label: str(said) for label, said in found.items() if said}


def _seconds(seconds: ReferenceSeconds) -> str:
    if seconds.device is None:
        return ""
    worth = f" ({text.COMPUTED}); {seconds.worth}" if seconds.computed else ""
    return f"{seconds.words}{worth}"


def _learning_rates(definition: StudyDefinition) -> str:
    space = definition.space
    low = space.lr_min[0] if space and space.lr_min else definition.lr_min
    high = space.lr_max[1] if space and space.lr_max else definition.lr_max
    return f"{low:g} to {high:g}"


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


def _hypervolume(summary: StudySummary) -> str:
    if summary.box is None or summary.hypervolume is None:
        return ""
    edges = [(OBJECTIVES[name], ends) for name, ends in summary.box.edges.items()]
    worst, best = (
        ", ".join(
            f"{objective.label} {text.edge(objective, ends[end])}" for objective, ends in edges
        )
        for end in (0, 1)
    )
    return (
        f"{summary.hypervolume:.3f} of the box from ({worst}) to ({best}), fixed with the first "
        "complete trial; accuracy counts from that of guessing, what is no fraction by logarithm"
    )


PANEL = Panel(
    name="protocol",
    title="Protocol",
    gather=gather,
    module=__file__,
)
