"""The paper's points, from its published figures by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.report.fronts import TimeAxis
from fastrcaps_search.report.paper import published

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastrcaps_search.report.fronts import Row
    from tests.report.conftest import Records


def rows_of(records: Records, *, network: str, data_set: str) -> dict[TimeAxis, Mapping[str, Row]]:
    """The paper's rows by name in each measure of time."""
    table = published(records.study(network=network, data_set=data_set).definition)
    return {} if table is None else {axis: table.rows_in(axis) for axis in TimeAxis}


def times(rows: dict[TimeAxis, Mapping[str, Row]], name: str) -> dict[TimeAxis, float]:
    """Training time of one of the paper's configurations in each measure that it gives."""
    return {axis: each[name]["training_seconds"] for axis, each in rows.items() if name in each}


def test_capsnet_on_mnist(records: Records) -> None:
    found = rows_of(records, network="capsnet", data_set="mnist")
    rows = found[TimeAxis.SECONDS]
    assert len(rows) == 8
    assert rows["fixed"]["accuracy"] == pytest.approx(0.99366)
    # 20,992 + 5,308,672 + 1,474,720 + 1,411,344 learned.
    assert rows["fixed"]["parameters"] == 8_215_728
    assert times(found, "fixed") == {
        TimeAxis.EPOCHS: 29,
        TimeAxis.SAMPLES: 29 * 60_000,
        TimeAxis.SECONDS: 8_700,
        TimeAxis.PAPER: 8_700,
    }
    assert rows["warm_adabatch"]["accuracy"] == pytest.approx(0.99454)
    assert rows["warm_adabatch"]["training_seconds"] == 3 * 800
    # 1,433,600 fewer by sharing and 73,728 by the smaller decoder.
    shared = rows["weight_sharing"]
    assert shared["parameters"] == 8_215_728 - 1_433_600 - 73_728 == 6_708_400
    assert shared["training_seconds"] == 26 * 300
    both = rows["warm_adabatch+weight_sharing"]
    assert (both["parameters"], both["training_seconds"]) == (6_708_400, 11 * 400)


def test_a_study_of_the_mini_set_or_the_narrow_network_sees_the_same(records: Records) -> None:
    mini = rows_of(records, network="capsnet-narrow", data_set="mnist-mini")
    assert mini == rows_of(records, network="capsnet", data_set="mnist")


def test_lenet5_has_seconds_for_the_fixed_rate_alone(records: Records) -> None:
    found = rows_of(records, network="lenet5", data_set="mnist")
    rows = found[TimeAxis.EPOCHS]
    assert set(rows) == {"fixed", "exponential_decay", "one_cycle", "warm_restarts", "adabatch"}
    # 156 + 2,416 + 48,120 + 10,164 + 850 learned.
    assert {row["parameters"] for row in rows.values()} == {61_706}
    assert rows["fixed"]["accuracy"] == pytest.approx(0.9886)
    assert times(found, "fixed")[TimeAxis.SECONDS] == 17 * 17
    for name in rows:
        known = {TimeAxis.EPOCHS, TimeAxis.SAMPLES}
        if name == "fixed":
            known |= {TimeAxis.SECONDS, TimeAxis.PAPER}
        assert set(times(found, name)) == known
    assert times(found, "one_cycle")[TimeAxis.SAMPLES] == 1_800_000


def test_fashion_has_figures_of_its_own(records: Records) -> None:
    found = rows_of(records, network="capsnet", data_set="fashion-mnist")[TimeAxis.SECONDS]
    assert len(found) == 8
    assert found["fixed"]["accuracy"] == pytest.approx(0.9099)
    assert found["fixed"]["training_seconds"] == 17 * 290
    assert found["exponential_decay"]["training_seconds"] == 29 * 280
    assert found["one_cycle"]["accuracy"] == max(row["accuracy"] for row in found.values())


def test_no_figures_were_published_for_lenet5_on_fashion(records: Records) -> None:
    assert rows_of(records, network="lenet5", data_set="fashion-mnist") == {}


def test_the_paper_says_nothing_of_steps(records: Records) -> None:
    for network in ("capsnet", "lenet5"):
        assert rows_of(records, network=network, data_set="mnist")[TimeAxis.STEPS] == {}
