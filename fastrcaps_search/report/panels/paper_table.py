"""Beside the paper: the study's figures and the published ones."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from fastrcaps_search.report.panel import Panel
from fastrcaps_search.report.paper.comparison import Comparison, comparison
from fastrcaps_search.report.paper.points import HARDWARE
from fastrcaps_search.report.paper.protocol import Measure
from fastrcaps_search.report.view import ReportView


def note(beside: Beside) -> tuple[str, ...]:
    """What was trained, and what counts as agreeing."""
    table = beside.table
    agree = "One run each: no standard error, so nothing is marked as agreeing or not."
    if table.repeated:
        agree = "Figures agree where they lie within two standard errors of their difference."
    return (
        "This study trains as the paper did: all 60,000 images, 30 epochs, the test set after "
        f"each of them, the highest accuracy over the epochs. {agree}",
    )


def remarks(table: Comparison) -> tuple[str, ...]:
    """How to read the figures, one remark each."""
    return (
        *_errors(table),
        _papers_runs(table),
        _differences(table),
        "Epochs to the accuracy of fixed: the first one that reaches the highest accuracy of "
        "fixed, each run against the run of fixed with the same seed; a dash where it is not "
        "always reached.",
        "Reduction: of the training seconds, or epochs, up to there, against those of fixed up to "
        f"its best epoch. {_papers_seconds(table)}",
        _devices(table),
    )


def _errors(table: Comparison) -> tuple[str, ...]:
    if not table.repeated:
        return ()
    what = "configuration" if table.repeated == 1 else "configurations"
    return (
        "After ± stands the standard error (s.e.), from the deviation from run to run pooled over "
        f"the {table.repeated} {what} trained more than once. The paper prints no spread: its "
        "runs are taken to vary as ours do.",
        "The mean curve is the mean of the runs' accuracies after each epoch. The paper's whole "
        "epochs suggest that it reads its figures off such a curve, but it does not say so. What "
        "agrees is judged by the mean of the runs, whose accuracy lies a little higher by its "
        "nature.",
    )


def _papers_runs(table: Comparison) -> str:
    if table.paper_runs == 1:
        return (
            "The paper's text speaks of five runs, but its published plots read one training of "
            "each configuration on Fashion-MNIST, and all its accuracies there are whole numbers "
            "of the 10,000 test images: its figures are taken as one run each."
        )
    many = "; nothing else that was published shows how many LeNet5 were trained"
    many = many if table.network == "lenet5" else ""
    return f"The paper's text says that its figures are means of {table.paper_runs} runs{many}."


def _differences(table: Comparison) -> str:
    primary = (
        "The primary capsules have the coupling coefficient 1/T of T capsule types, as in "
        "Sabour's and the authors' code. "
    )
    return ("" if table.network == "lenet5" else primary) + Markup(
        "What still differs from the paper and from the authors' code stands in "
        "<code>docs/differences.md</code> of the source."
    )


def _papers_seconds(table: Comparison) -> str:
    if Measure.TIME_REDUCTION in table.published:
        return (
            "The paper's seconds are its epochs times the seconds per epoch that its figures "
            f"draw, on {HARDWARE}."
        )
    if Measure.EPOCH_REDUCTION in table.published:
        return "The paper gives seconds per epoch for fixed alone, so only the epochs compare."
    return "For these images the paper does not say how soon the accuracy of fixed was reached."


def _devices(table: Comparison) -> str:
    fewest, most = table.workers_on_device
    to = f" to {most}, so they compare less well" if most != fewest else ""
    return (
        f"Our seconds depend on the device ({', '.join(table.devices)}) and on how many workers "
        f"shared it: {fewest}{to}."
    )


@dataclass(frozen=True, slots=True)
class Beside:
    """The table, and how to read it."""

    table: Comparison
    remarks: tuple[str, ...]


def gather(view: ReportView) -> Beside | None:
    """The study beside the paper's tables, where it trained as the paper did."""
    found = comparison(view.definition, [trial.record for trial in view.trials])
    return None if found is None else Beside(found, remarks(found))


PANEL = Panel(
    name="paper-table",
    title="Beside the paper",
    gather=gather,
    note=note,
    module=__file__,
)
