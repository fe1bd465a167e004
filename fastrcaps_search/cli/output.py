"""Tables, numbers and JSON as the commands print them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fastrcaps_search.definition.objective import COMMON, OBJECTIVES
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.report import text

if TYPE_CHECKING:
    from fastrcaps_search.store.records import StudyRecord


def tell(line: str) -> None:
    """Print what is no result, at once, on standard error."""
    print(line, file=sys.stderr, flush=True)


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Print JSON; escaped where the output cannot take a character as it is.

    Args:
        value: What it holds.
        indent: By so many blanks; ``None`` for one line.
    """
    words = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    try:
        words.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        words = json.dumps(value, indent=indent, allow_nan=False)
    print(words)


def print_table(rows: Sequence[Sequence[object]]) -> None:
    """Print columns as wide as they need."""
    for line in table_lines(rows):
        print(line)


def table_lines(rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines of columns as wide as they need."""
    lines = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


TRIAL_HEAD = (
    *("trial", "state", "policy", "P", "decoder", "shared"),
    *("accuracy", "test", "seconds", "parameters", "runs", "on front", ""),
)


def print_trials(rows: Sequence[dict[str, Any]], *, device: str | None) -> None:
    """A row for each trial, and what its values are.

    Args:
        rows: Those of ``trials --json``.
        device: Whose seconds they have; ``None`` where no device is known yet.
    """
    labels = [OBJECTIVES[name].label for name in further(rows[0]["values"])] if rows else []
    head = (*TRIAL_HEAD[:-3], *labels, *TRIAL_HEAD[-3:])
    print_table([head, *map(trial_cells, rows)])
    if any("measured" in row for row in rows):
        print("accuracy: estimates of the true means; means of the runs: --json")
    if rows and device is not None:
        computed = any("seconds_basis" in row for row in rows)
        print(f"seconds: on {device}{'; ~ computed, as measured: --json' if computed else ''}")


def print_front(rows: Sequence[dict[str, Any]], study: StudyRecord, *, run: str) -> None:
    """The rows of the front, and what is still unknown of it.

    Args:
        rows: Those of ``front --json``.
        study: The study.
        run: What follows ``run --study``.
    """
    print_trials(rows, device=study.reference_device)
    if any(row["front_probability"] is None for row in rows):
        advice = f"`fastrcaps-search run --study {run} --runs-on-front 5` says how sure it is"
        if study.front_runs:
            advice = f"{study.front_runs} runs are planned for each trial on or near the front"
        print(f"on front: ? where nothing was repeated; {advice}")


def no_front(study: str) -> str:
    """What is said where trials are complete and none is feasible; ``study`` follows --study."""
    return (
        "front: empty, for no trial is feasible; "
        f"`fastrcaps-search trials --study {study}` says why"
    )


def without_network(trials: Sequence[int], *, study: str) -> str:
    """What is said of trials on the front that have no network; ``study`` follows run --study."""
    numbers = ", ".join(map(str, trials))
    return (
        f"on the front without a network: {numbers}; `export` needs one, which "
        f"`fastrcaps-search run --study {study} --runs-on-front R` trains (R above their runs)"
    )


def trial_cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Cells of a trial's row (as ``trials --json`` gives it)."""
    parameters, values = row["params"], row["values"]
    return (
        str(row["trial"]),
        row["state"],
        TrialParameters.from_dict(parameters).described,
        *(
            plain(text.value(parameters.get(name)))
            for name in ("adabatch_exponent", "decoder", "weight_sharing")
        ),
        _with_margin(row, "accuracy"),
        fraction(row.get("test_accuracy")),
        _with_margin(row, "training_seconds"),
        plain(text.count(values["parameters"])),
        *(value(name, values[name]) for name in further(values)),
        str(row["runs"]),
        plain(text.share(row["front_probability"])) if "front_probability" in row else "-",
        row.get("reason", ""),
    )


def further(values: Iterable[str]) -> list[str]:
    """Of values by objective, the objectives beyond those of every study."""
    return [name for name in values if name not in COMMON]


def _with_margin(row: dict[str, Any], name: str) -> str:
    """A value without its unit, and how far its 95 % interval reaches where that is known."""
    told = text.of_row(row, name)
    return plain(f"{told} {text.margin(row, name)}".rstrip())


def plain(words: str) -> str:
    """Words of a page as a terminal shows them."""
    return words.replace("\u00a0", " ").replace(text.NOTHING, "-")


def fraction(value: float | None) -> str:
    """A fraction as per cent."""
    return plain(text.percent(value))


def value(name: str, number: float | None) -> str:
    """A value of an objective, with its unit."""
    return plain(text.of_objective(OBJECTIVES[name], number))


def duration(seconds: float | None) -> str:
    """Rough time."""
    return "unknown" if seconds is None else text.duration(seconds)
