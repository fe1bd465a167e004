"""Which parameters matter for which objective."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS
from fastrcaps_search.front.criteria import joined
from fastrcaps_search.report import axes, plots
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.trials import TrialRecord

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

    parameters: Sequence[str]
    shares: Mapping[str, Mapping[str, float]]
    best: int
    trials: int


def importance(study: StudyRecord, trials: Sequence[TrialRecord]) -> Importance | None:
    """Importance by PED-ANOVA (Watanabe et al., IJCAI 2023), as Optuna computes it.

    A parameter that not all trials have comes by condPED-ANOVA (arXiv:2601.20800). It says in
    which parameters the best tenth in an objective, at least five trials and those that tie with
    them, differs from all. It takes low targets as good, so they are costs.

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
    # Imported here: Optuna takes longer to import than the rest of the report.
    import optuna

    from fastrcaps_search.analysis.optuna_trials import distributions, quiet

    best = max(FEWEST_BEST, math.ceil(SHARE_OF_BEST * len(trials)))
    names, known = study.definition.objectives, distributions(study.definition)
    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=best / len(trials))
    shares = {}
    with quiet():
        finished = optuna.create_study(directions=["minimize"] * len(names))
        for trial in trials:
            given = trial.parameters.to_dict()
            kinds = {key: known[key] for key in given}
            values = None if trial.values is None else trial.values.costs
            finished.add_trial(
                optuna.trial.create_trial(params=given, distributions=kinds, values=values)
            )
        for place, name in enumerate(names):
            found = evaluator.evaluate(finished, varied, target=partial(_cost, place))
            total = math.fsum(found.values()) or 1.0
            shares[name] = {key: value / total for key, value in found.items()}
    order = sorted(varied, key=lambda key: -max(share[key] for share in shares.values()))
    return Importance(order, shares, best, len(trials))


def _cost(place: int, trial: Any) -> float:  # noqa: ANN401 - Optuna's
    return float(trial.values[place])


def gather(view: ReportView) -> Importance | None:
    """Importance over the feasible trials."""
    return importance(view.study, [trial.record for trial in view.feasible])


def draw(found: Importance) -> Iterator[Plot]:
    """The figure."""
    words = f"for {joined([OBJECTIVES[name].label for name in found.shares])}"
    yield Plot(
        name="importances",
        drawing=importances(found),
        words=f"Bar chart of the importance of each parameter {words}",
        height="low",
        scrolls=True,
        caption="Importance by PED-ANOVA, by condPED-ANOVA where not all trials have the "
        f"parameter: how the best {found.best} trials in an objective, and those that tie with "
        f"them, differ from all {found.trials:,} feasible ones. It says neither in which "
        "direction nor why; the medians below do for one choice at a time.",
    )


def importances(found: Importance) -> plots.Drawing:
    """A column of bars for each objective; the most important parameter is on top."""
    upwards = found.parameters[::-1]
    tick = {"color": plots.TEXT.light}
    layout: dict[str, Any] = {"yaxis": {"tickfont": tick, "automargin": True}, "bargap": 0.35}
    data: list[plots.Trace] = []
    titles = []
    above = {"xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
    places = axes.side_by_side(len(found.shares), gap=0.06)
    for name, (suffix, domain) in zip(found.shares, places, strict=True):
        objective = OBJECTIVES[name]
        layout[f"xaxis{suffix}"] = axes.plain(
            "", domain=domain, range=[0, 1.05], tickformat=".0%", nticks=3
        )
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "x": [found.shares[name][key] for key in upwards],
                "y": [key.replace("_", " ") for key in upwards],
                "xaxis": f"x{suffix}",
                "marker": {"color": plots.ACCENT.light},
                "hovertemplate": f"%{{y}}: %{{x:.0%}} for {objective.label}<extra></extra>",
            }
        )
        titles.append(plots.words_at(domain[0], 1.0, objective.label, font=plots.SMALL, **above))
    margin = {"l": 64, "r": 16, "t": 28, "b": 32}
    return plots.drawing(data, **layout, annotations=titles, margin=margin)


PANEL = Panel(
    name="importance",
    title="What sets the best trials in each objective apart",
    link="",
    gather=gather,
    draw=draw,
)
