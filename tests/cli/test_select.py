"""``select`` and ``select_trial`` on a stored study whose choices are worked out by hand."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import fastrcaps_search
from fastrcaps_search.errors import FastrcapsError, NothingFitsError, UsageError
from fastrcaps_search.store.records import Values
from tests.triples import values_of

Cli = Callable[..., subprocess.CompletedProcess[str]]
StoreStudy = Callable[[Path, list[Values | None]], None]

# On the front are 2, 1 and 0, by falling accuracy; 3 loses to 2, and 4 failed. The ranges are
# 0.06, 50 s and 200 parameters, so that the distances to the ideal point are 1 + 0 + 0 for trial
# 0, 1/3 + 1/5 + 0 for trial 1 and 0 + 1 + 1 for trial 2.
TRIALS = [
    values_of(0.90, 10.0, 100),
    values_of(0.94, 20.0, 100),
    values_of(0.96, 60.0, 300),
    values_of(0.95, 70.0, 400),
    None,
]


@pytest.fixture(scope="module")
def stored(store_study: StoreStudy, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The database with ``TRIALS``."""
    file = tmp_path_factory.mktemp("stored") / "a.db"
    store_study(file, TRIALS)
    return str(file)


@pytest.fixture
def select(call: Cli, stored: str) -> Cli:
    """Runs ``select`` on that study."""
    return lambda *more: call("select", "--study", "tiny", "--storage", stored, *more)


CHOICES = [
    pytest.param((), 2, "highest accuracy of the 3 trials on the front", id="default"),
    pytest.param(
        ("--prefer", "accuracy", "--max-seconds", "20"),
        1,
        "highest accuracy of the 2 trials on the front that fit",
        id="accuracy",
    ),
    pytest.param(
        ("--prefer", "time", "--min-accuracy", "94%"),
        1,
        "shortest training time of the 2 trials on the front that fit",
        id="time",
    ),
    pytest.param(
        ("--prefer", "size"), 1, "fewest parameters of the 3 trials on the front", id="size"
    ),
    pytest.param(
        ("--prefer", "knee"),
        1,
        "closest to the best value of every objective at once (knee) of the 3 trials on the front",
        id="knee",
    ),
    pytest.param(
        ("--prefer=weights=10,1,0.5",),
        2,
        "closest to the best value of every objective at once (weights: accuracy 10, time 1, "
        "size 0.5) of the 3 trials on the front",
        id="weights",
    ),
    pytest.param(
        ("--max-parameters", "100", "--min-accuracy", "0.94"),
        1,
        "the only trial on the front that fits",
        id="only one",
    ),
]


@pytest.mark.parametrize(("flags", "number", "why"), CHOICES)
def test_the_chosen_trial_is_the_row_of_the_front_and_why(
    call: Cli, select: Cli, stored: str, flags: tuple[str, ...], number: int, why: str
) -> None:
    front = json.loads(call("front", "--study", "tiny", "--storage", stored, "--json").stdout)
    done = select(*flags, "--json")
    assert done.returncode == 0, done.stderr
    chosen = json.loads(done.stdout)
    assert list(chosen) == [
        *("trial", "state", "params", "values", "runs", "device"),
        *("front_probability", "feasible", "why"),
    ]
    assert chosen["trial"] == number
    assert chosen.pop("why") == why
    assert chosen in front


def test_the_table_is_that_of_the_front_and_ends_with_why(
    call: Cli, select: Cli, stored: str
) -> None:
    head, *rows, unsure = call("front", "--study", "tiny", "--storage", stored).stdout.splitlines()
    assert unsure == (
        "on front: ? where nothing was repeated; `fastrcaps-search run --study tiny --storage "
        f"{stored} --runs-on-front 5` says how sure it is"
    )
    done = select("--prefer", "time")
    assert done.returncode == 0, done.stderr
    printed_head, row, why = done.stdout.splitlines()
    assert printed_head.split() == head.split()
    assert row.split() == rows[-1].split()
    assert row.split()[0] == "0"
    assert why == "shortest training time of the 3 trials on the front"


@pytest.mark.parametrize("bound", ["0.94", "94%", "94.0 %", ".94"])
def test_a_bound_that_a_trial_meets_exactly_is_met_however_it_is_written(
    select: Cli, bound: str
) -> None:
    chosen = json.loads(select("--min-accuracy", bound, "--prefer", "time", "--json").stdout)
    assert chosen["trial"] == 1


def test_a_percentage_is_the_same_float_as_its_fraction(
    call: Cli, tmp_path: Path, store_study: StoreStudy
) -> None:
    # 98.9 / 100 is the float after 0.989: the trial would just miss it.
    assert 98.9 / 100 > 0.989
    store_study(tmp_path / "fastrcaps.db", [values_of(0.989, 1.0, 1)])
    done = call("select", "--study", "tiny", "--min-accuracy", "98.9%", "--json")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_where_none_fits_one_line_names_the_nearest_ones(
    select: Cli, flags: tuple[str, ...]
) -> None:
    # Shortfalls: trial 0: 7/6, trial 1: 3/6 + 5/50, trial 2: 1/6 + 45/50.
    done = select("--min-accuracy", "97%", "--max-seconds", "15", *flags)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "fastrcaps-search: the trial must have accuracy of at least 97 % and at most 15 s of "
        "training, but none of the 3 trials on the front fits; nearest: trial 1 (accuracy 3.00 "
        "percentage points too low and 5.00 s too long), trial 2 (accuracy 1.00 percentage points "
        "too low and 45.00 s too long), trial 0 (accuracy 7.00 percentage points too low); "
        "loosen a bound or run more trials\n"
    )


@pytest.mark.parametrize("values", [[], [None]], ids=["no trial", "a failed trial"])
def test_without_a_complete_trial_there_is_nothing_to_select(
    call: Cli, tmp_path: Path, store_study: StoreStudy, values: list[Values | None]
) -> None:
    store_study(tmp_path / "fastrcaps.db", values)
    done = call("select", "--study", "tiny", "--min-accuracy", "0.5")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "fastrcaps-search: select needs a complete trial, but the study has none yet; run it "
        "until one is done\n"
    )


PREFERENCES = "argument --prefer: must be accuracy, time, size, knee or weights=a,t,p"
SECONDS = "argument --max-seconds: must be seconds above 0 and below 1000000000, got "
FRACTION = "must be a fraction from 0 to 1, or a percentage with its sign as in 98.5%, got "
WEIGHTS = (
    "argument --prefer: weights must be finite numbers of at least 0, one each of accuracy, "
    "time and size, and not all 0, got "
)


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        *(
            (("--min-accuracy", text), f"argument --min-accuracy: {FRACTION}{text!r}")
            for text in ("98.5", "101%", "-0.1", "nan", "0,9", "high", "1e-1", "%")
        ),
        *(
            (("--max-seconds", text), f"{SECONDS}{text!r}")
            for text in ("0", "0.0", "-3", "inf", "nan", "1e3", "10 min")
        ),
        *(
            (
                ("--max-parameters", text),
                "argument --max-parameters: must be a whole number from 1 to 1000000000000, "
                f"got {text!r}",
            )
            for text in ("0", "-5", "1.5", "1e6", "few")
        ),
        *(
            (("--prefer", text), f'{PREFERENCES}, got "{text}"')
            for text in ("speed", "", "weights", "Accuracy")
        ),
        *(
            (
                ("--prefer", text),
                f"{PREFERENCES} with a number for each objective, as in weights=1,0.5,2, "
                f'got "{text}"',
            )
            for text in ("weights=", "weights=1,2", "weights=1,2,3,4", "weights=a,t,p")
        ),
        (("--prefer", "weights=0,0,0"), f"{WEIGHTS}[0.0, 0.0, 0.0]"),
        (("--prefer", "weights=1,-1,1"), f"{WEIGHTS}[1.0, -1.0, 1.0]"),
        (("--prefer", "weights=1,nan,1"), f"{WEIGHTS}[1.0, nan, 1.0]"),
        (("--prefer", "weights=1,1,inf"), f"{WEIGHTS}[1.0, 1.0, inf]"),
    ],
)
def test_wrong_values_of_flags_are_refused_in_one_line(
    call: Cli, tmp_path: Path, flags: tuple[str, str], line: str
) -> None:
    done = call("select", "--study", "tiny", *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"fastrcaps-search: {line}; `fastrcaps-search select --help` shows how it is used\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_python_gives_the_object_of_the_json(select: Cli, stored: str) -> None:
    printed = json.loads(select("--prefer", "knee", "--max-seconds", "60", "--json").stdout)
    assert "select_trial" in fastrcaps_search.__all__
    found = fastrcaps_search.select_trial("tiny", prefer="knee", max_seconds=60, storage=stored)
    assert found == printed
    assert fastrcaps_search.select_trial("tiny", storage=stored)["trial"] == 2
    heavy = fastrcaps_search.select_trial(
        "tiny", prefer="weights=10,1,1", max_parameters=300, storage=stored
    )
    assert heavy["trial"] == 2


def test_python_raises_what_the_command_reports(
    tmp_path: Path, stored: str, store_study: StoreStudy
) -> None:
    with pytest.raises(NothingFitsError, match=r"none of the 3 trials .* nearest: trial 2 \("):
        fastrcaps_search.select_trial("tiny", min_accuracy=0.97, storage=stored)
    with pytest.raises(UsageError, match=r"min_accuracy must be a fraction from 0 to 1 .* 98.5"):
        fastrcaps_search.select_trial("tiny", min_accuracy=98.5, storage=stored)
    with pytest.raises(UsageError, match=r'prefer must be accuracy, .* got "speed"'):
        fastrcaps_search.select_trial("tiny", prefer="speed", storage=stored)
    store_study(tmp_path / "b.db", [])
    with pytest.raises(FastrcapsError, match="select needs a complete trial"):
        fastrcaps_search.select_trial("tiny", storage=str(tmp_path / "b.db"))
