"""Which parameters matter for which objective."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS
from fastrcaps_search.report import axes
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.plots import Drawing, Trace, drawing
from fastrcaps_search.report.style import ACCENT, TEXT
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.trials import TrialRecord

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

FEWEST_TRIALS = 10
"""Complete trials below which nothing is said of importance."""
FEWEST_BEST = 5
"""Trials that must count as the best ones: with fewer the estimate is unstable (Optuna)."""
SHARE_OF_BEST = 0.1


@dataclass(frozen=True, slots=True)
class Importance:
    """Importances of the varied parameters.

    Attributes:
        parameters: Names, the most important for any objective first.
        shares: For each objective, by parameter: shares that add up to 1, or all 0 where nothing
            tells the best trials from the others.
        best: How many trials count as the best ones in each objective, but for ties.
        trials: Of how many.
    """

    parameters: tuple[str, ...]
    shares: Mapping[str, Mapping[str, float]]
    best: int
    trials: int


def importance(study: StudyRecord, trials: Sequence[TrialRecord]) -> Importance | None:
    """Importance by PED-ANOVA (Watanabe et al., IJCAI 2023), as Optuna computes it.

    A parameter that not all trials have comes by condPED-ANOVA (arXiv:2601.20800). It says in
    which parameters the best tenth in an objective, at least five trials and those that tie with
    them, differs from all. It takes low targets as good, so an objective to maximise is negated.

    Args:
        study: The study.
        trials: Its trials with finite values.

    Returns:
        ``None`` with too few trials or nothing varied.
    """
    varied = [
        key
        for key in TRIAL_PARAMETERS.names
        if len({trial.parameters[key] for trial in trials}) > 1
    ]
    if len(trials) < FEWEST_TRIALS or not varied:
        return None
    best = max(FEWEST_BEST, math.ceil(SHARE_OF_BEST * len(trials)))
    shares = {
        name: _shares(found) for name, found in _evaluated(study, trials, varied, best).items()
    }
    order = sorted(varied, key=lambda key: -max(share[key] for share in shares.values()))
    return Importance(tuple(order), shares, best, len(trials))


def _evaluated(
    study: StudyRecord, trials: Sequence[TrialRecord], varied: list[str], best: int
) -> dict[str, dict[str, float]]:
    # Imported here: Optuna takes longer to import than the rest of the report.
    import optuna

    from fastrcaps_search.analysis.distributions import distributions
    from fastrcaps_search.analysis.optuna_trials import quiet

    known = distributions(study.definition)
    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=best / len(trials))
    found = {}
    with quiet():
        finished = optuna.create_study(directions=["minimize"] * len(OBJECTIVES))
        finished.add_trials([_frozen(trial, known) for trial in trials])
        for column, objective in enumerate(OBJECTIVES):
            sign = -1.0 if objective.maximise else 1.0

            def target(trial: FrozenTrial, column: int = column, sign: float = sign) -> float:
                return sign * float(trial.values[column])

            found[objective.name] = evaluator.evaluate(finished, varied, target=target)
    return found


def _frozen(trial: TrialRecord, known: Mapping[str, BaseDistribution]) -> FrozenTrial:
    from optuna.trial import create_trial

    given = trial.parameters.to_dict()
    return create_trial(
        params=given,
        distributions={key: known[key] for key in given},
        values=None if trial.values is None else list(trial.values.values()),
    )


def _shares(found: Mapping[str, float]) -> dict[str, float]:
    total = math.fsum(found.values())
    return {key: value / total if total > 0 else 0.0 for key, value in found.items()}


def gather(view: ReportView) -> Importance | None:
    """Importance over the feasible trials."""
    return importance(view.study, [trial.record for trial in view.feasible])


def draw(found: Importance) -> tuple[Plot]:
    """The figure."""
    words = "for accuracy, training time and parameters"
    return (
        Plot(
            name="importances",
            drawing=importances(found),
            words=f"Bar chart of the importance of each parameter {words}",
            height="low",
            scrolls=True,
            caption="Importance by PED-ANOVA, by condPED-ANOVA where not all trials have the "
            f"parameter: how the best {found.best} trials in an objective, and those that tie "
            f"with them, differ from all {found.trials:,} feasible ones. It says neither in which "
            "direction nor why; the medians below do for one choice at a time.",
        ),
    )


def importances(found: Importance) -> Drawing:
    """A column of bars for each objective; the most important parameter is on top."""
    names = [name.replace("_", " ") for name in reversed(found.parameters)]
    gap, width = 0.06, (1 - 2 * 0.06) / 3
    layout: dict[str, Any] = {"yaxis": {"tickfont": {"color": TEXT.light}, "automargin": True}}
    data: list[Trace] = []
    titles = []
    for place, objective in enumerate(OBJECTIVES):
        suffix = str(place + 1) if place else ""
        left = place * (width + gap)
        layout[f"xaxis{suffix}"] = axes.plain(
            "", domain=[left, left + width], range=[0, 1.05], tickformat=".0%", nticks=3
        )
        shares = found.shares[objective.name]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "x": [shares[key] for key in reversed(found.parameters)],
                "y": names,
                "xaxis": f"x{suffix}",
                "marker": {"color": ACCENT.light},
                "hovertemplate": f"%{{y}}: %{{x:.0%}} for {objective.label}<extra></extra>",
            }
        )
        titles.append(_title(objective.label, left))
    margin = {"l": 64, "r": 16, "t": 28, "b": 32}
    return drawing(data, **layout, annotations=titles, bargap=0.35, margin=margin)


def _title(words: str, left: float) -> dict[str, Any]:
    """A title above the column that begins there."""
    return {
        "text": words,
        "x": left,
        "y": 1.0,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 12, "color": TEXT.light},
    }


PANEL = Panel(
    name="importance",
    title="What sets the best trials in each objective apart",
    link="",
    gather=gather,
    draw=draw,
)
