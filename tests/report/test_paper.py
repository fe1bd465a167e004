"""The paper's points, from its published figures by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.report.fronts import TimeAxis
from fastrcaps_search.report.paper import published

if TYPE_CHECKING:
    from fastrcaps_search.report.paper import PaperPoint
    from tests.report.conftest import Records


def points_of(records: Records, *, network: str, data_set: str) -> dict[str, PaperPoint]:
    study = records.study(network=network, data_set=data_set)
    table = published(study.definition)
    return {} if table is None else {point.name: point for point in table.points}


def test_capsnet_on_mnist(records: Records) -> None:
    found = points_of(records, network="capsnet", data_set="mnist")
    assert len(found) == 8
    fixed = found["fixed"]
    assert fixed.accuracy == pytest.approx(0.99366)
    # 20,992 + 5,308,672 + 1,474,720 + 1,411,344 learned.
    assert fixed.parameters == 8_215_728
    assert fixed.positions == {
        TimeAxis.EPOCHS: 29,
        TimeAxis.SAMPLES: 29 * 60_000,
        TimeAxis.SECONDS: 8_700,
        TimeAxis.PAPER: 8_700,
    }
    best = found["warm_adabatch"]
    assert best.accuracy == pytest.approx(0.99454)
    assert best.positions[TimeAxis.SECONDS] == 3 * 800
    # 1,433,600 fewer by sharing and 73,728 by the smaller decoder.
    shared = found["weight_sharing"]
    assert shared.parameters == 8_215_728 - 1_433_600 - 73_728 == 6_708_400
    assert shared.positions[TimeAxis.SECONDS] == 26 * 300
    both = found["warm_adabatch+weight_sharing"]
    assert (both.parameters, both.positions[TimeAxis.SECONDS]) == (6_708_400, 11 * 400)


def test_a_study_of_the_mini_set_or_the_narrow_network_sees_the_same(records: Records) -> None:
    mini = points_of(records, network="capsnet-narrow", data_set="mnist-mini")
    assert mini == points_of(records, network="capsnet", data_set="mnist")


def test_lenet5_has_seconds_for_the_fixed_rate_alone(records: Records) -> None:
    found = points_of(records, network="lenet5", data_set="mnist")
    assert set(found) == {"fixed", "exponential_decay", "one_cycle", "warm_restarts", "adabatch"}
    # 156 + 2,416 + 48,120 + 10,164 + 850 learned.
    assert {point.parameters for point in found.values()} == {61_706}
    assert found["fixed"].accuracy == pytest.approx(0.9886)
    assert found["fixed"].positions[TimeAxis.SECONDS] == 17 * 17
    for name, point in found.items():
        known = {TimeAxis.EPOCHS, TimeAxis.SAMPLES}
        if name == "fixed":
            known |= {TimeAxis.SECONDS, TimeAxis.PAPER}
        assert set(point.positions) == known
    assert found["one_cycle"].positions[TimeAxis.SAMPLES] == 1_800_000


def test_fashion_has_figures_of_its_own(records: Records) -> None:
    found = points_of(records, network="capsnet", data_set="fashion-mnist")
    assert len(found) == 8
    assert found["fixed"].accuracy == pytest.approx(0.9099)
    assert found["fixed"].positions[TimeAxis.SECONDS] == 17 * 290
    assert found["exponential_decay"].positions[TimeAxis.SECONDS] == 29 * 280
    assert found["one_cycle"].accuracy == max(point.accuracy for point in found.values())


def test_no_figures_were_published_for_lenet5_on_fashion(records: Records) -> None:
    assert points_of(records, network="lenet5", data_set="fashion-mnist") == {}


def test_the_paper_says_nothing_of_steps(records: Records) -> None:
    for network in ("capsnet", "lenet5"):
        for point in points_of(records, network=network, data_set="mnist").values():
            assert TimeAxis.STEPS not in point.positions
