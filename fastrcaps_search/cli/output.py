"""Tables, numbers and JSON as the commands print them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from fastrcaps_search.definition.parameters import TrialParameters


def print_json(value: object) -> None:
    """Print JSON, indented, as UTF-8."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns as wide as they need; the last one is left as it is."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        print("  ".join(cells).rstrip())


TRIAL_HEAD = (
    *("trial", "state", "policy", "P", "decoder", "shared"),
    *("accuracy", "test", "seconds", "parameters", "runs", "on front", ""),
)


def print_trials(rows: Sequence[dict[str, Any]]) -> None:
    """A row for each trial, and whether values are estimates."""
    print_table(TRIAL_HEAD, [trial_cells(row) for row in rows])
    if any("measured" in row for row in rows):
        print("accuracy: estimates of the true means; means of the runs: --json")


def print_front(rows: Sequence[dict[str, Any]], *, study: str, repeats: int) -> None:
    """The rows of the front, and what is still unknown of it.

    Args:
        rows: Those of ``front --json``.
        study: Name of the study.
        repeats: Runs that are planned for each trial on or near the front.
    """
    print_trials(rows)
    if any(row["front_probability"] is None for row in rows):
        advice = f"`fastrcaps-search run --study {study} --repeat-front 5` says how sure it is"
        if repeats:
            advice = f"{repeats} runs are planned for each trial on or near the front"
        print(f"on front: ? where nothing was repeated; {advice}")


def no_front(study: str) -> str:
    """What is said where trials are complete and none is feasible."""
    return (
        "front: empty, for no trial is feasible; "
        f"`fastrcaps-search trials --study {study}` says why"
    )


def trial_cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Cells of a trial's row (as ``trials --json`` gives it)."""
    parameters, values = row["params"], row["values"]
    return (
        str(row["trial"]),
        row["state"],
        TrialParameters.from_dict(parameters).described,
        _plain(parameters.get("adabatch_exponent")),
        _plain(parameters.get("decoder")),
        {True: "yes", False: "no", None: "-"}[parameters.get("weight_sharing")],
        fraction(values["accuracy"]) + _margin(row, "accuracy", ".2f", 100),
        fraction(row.get("test_accuracy")),
        _seconds(row),
        "-" if values["parameters"] is None else f"{values['parameters']:,.0f}",
        str(row["runs"]),
        sure(row),
        row.get("reason", ""),
    )


def sure(row: dict[str, Any]) -> str:
    """Probability of being on the front; a question mark where nothing was repeated."""
    if "front_probability" not in row:
        return "-"
    probability = row["front_probability"]
    return "?" if probability is None else f"{100 * probability:.0f} %"


def _seconds(row: dict[str, Any]) -> str:
    seconds = row["values"]["training_seconds"]
    return "-" if seconds is None else f"{seconds:.1f}" + _margin(row, "training_seconds", ".1f")


def _margin(row: dict[str, Any], name: str, form: str, factor: float = 1) -> str:
    """How far the 95 % interval reaches from the value, where there is one."""
    spread = row.get("spread", {}).get(name)
    if spread is None:
        return ""
    margin = factor * spread["margin"]
    shown = f"{margin:{form}}"
    # Nothing that is not 0 is to look as if it were.
    return f" ± {margin:.1g}" if margin and not float(shown) else f" ± {shown}"


def megabytes(count: int) -> str:
    """Bytes as megabytes."""
    return f"{count / 1e6:,.1f} MB"


def fraction(value: float | None) -> str:
    """A fraction as per cent."""
    return "-" if value is None else f"{100 * value:.2f} %"


def duration(seconds: float | None) -> str:
    """Seconds as hours, minutes and seconds."""
    if seconds is None:
        return "unknown"
    whole = round(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {whole % 60:02d} s" if minutes else f"{whole} s"


def _plain(value: object) -> str:
    return "-" if value is None else str(value)
