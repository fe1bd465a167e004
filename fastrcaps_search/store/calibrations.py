"""How fast a study trains where, and what its seconds are on one device: the reference device.

What is measured of a device (``training/probe.py``) is kept here and nowhere else, once for each
setting and number of workers that share the device. The first of the reference device is what all
training seconds of the study count in.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from sqlalchemy import Connection, select

from fastrcaps_search.errors import RunError
from fastrcaps_search.metrics import EpochMetrics, RunSetting
from fastrcaps_search.store import schema
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store

NEAR = 1.1
"""Two calibrations of one device within this factor do not tell its settings apart: each is short,
and off by more on a busy machine (reports/benchmarks/calibrations.jsonl)."""

StepSeconds = Mapping[int, float]
"""Seconds of one training step by batch size, where they were measured."""


def network_key(decoder: str | None, weight_sharing: bool | None) -> str:
    """What names a network of a study: ``full-own``, ``reduced-shared`` or ``only``."""
    weights = {None: None, False: "own", True: "shared"}[weight_sharing]
    return "-".join(filter(None, (decoder, weights))) or "only"


def seconds_at(measured: StepSeconds, size: int) -> float:
    """Seconds of a step of ``size``: linear between the measured sizes.

    In proportion above the largest; as long as that of the smallest below it.
    """
    sizes = sorted(measured)
    if size > sizes[-1]:
        return measured[sizes[-1]] * size / sizes[-1]
    return float(np.interp(size, sizes, [measured[one] for one in sizes]))


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured of a device.

    Attributes:
        setting: Device, versions, threads.
        sharing: Workers that trained on it at the same time.
        step_seconds: Seconds of a step by network and batch size, as each of them sees it.
    """

    setting: RunSetting
    sharing: int
    step_seconds: Mapping[str, StepSeconds]

    def is_of(self, setting: RunSetting, sharing: int) -> bool:
        """Whether it was measured under this setting, with so many workers."""
        return (self.setting, self.sharing) == (setting, sharing)


@dataclass(frozen=True, slots=True)
class ReferenceTime:
    """Turns measured seconds into those of the study's reference device.

    Attributes:
        reference: What they count in.
        known: All calibrations of the study.
    """

    reference: Calibration
    known: Sequence[Calibration]

    def computed_seconds(
        self, metrics: EpochMetrics, *, setting: RunSetting, sharing: int, network: str
    ) -> float | None:
        """Seconds that an epoch would have taken there; ``None`` where it was measured there.

        Measured is what trained under the reference's own setting with as many workers beside it,
        or with a number for which no calibration is nearer; and what trained on that device
        otherwise, as long as its calibration finds no difference.
        All else is computed: the measured seconds times the ratio of two steps of the epoch's
        batch size, so that a last short batch counts by its share.

        Args:
            metrics: The epoch.
            setting: Where it trained.
            sharing: Workers on its device.
            network: Which network (:func:`network_key`).

        Raises:
            RunError: Its device was not calibrated.
        """
        own = nearest(self.known, setting, sharing)
        if own is self.reference and own.setting == setting:
            return None
        there, here = (
            seconds_at(one.step_seconds[network], metrics.batch_size)
            for one in (self.reference, own)
        )
        is_same_device = setting.device_name == self.reference.setting.device_name
        if is_same_device and own.is_of(setting, sharing) and 1 / NEAR <= there / here <= NEAR:
            return None
        return metrics.training_seconds * there / here


def nearest(known: Sequence[Calibration], setting: RunSetting, sharing: int) -> Calibration:
    """The calibration of a device that is closest to a setting and a number of workers.

    Raises:
        RunError: The device has none.
    """

    def distance(one: Calibration) -> tuple[float, ...]:
        return (
            (one.setting.torch_version, one.setting.kernel)
            != (setting.torch_version, setting.kernel),
            abs(math.log(one.setting.threads / setting.threads)),
            abs(one.sharing - sharing),
        )

    here = [one for one in known if one.setting.device_name == setting.device_name]
    if not here:
        raise RunError(
            f"{setting.device_name} must be calibrated before it trains for this study, but is "
            "not; start the `worker` command on its machine, which does so"
        )
    return min(here, key=distance)


def read_calibrations(connection: Connection, study_id: int) -> list[Calibration]:
    """What was measured for a study, in the order in which it was stored."""
    table = schema.calibrations
    own = select(table).where(table.c.study_id == study_id).order_by(table.c.number)
    return [
        Calibration(
            RunSetting(**{name: getattr(row, name) for name in RunSetting.__dataclass_fields__}),
            row.sharing,
            {
                network: {int(size): seconds for size, seconds in steps.items()}
                for network, steps in json.loads(row.step_seconds).items()
            },
        )
        for row in connection.execute(own)
    ]


def read_reference(connection: Connection, study_id: int) -> ReferenceTime | None:
    """The study's measure of time; ``None`` before its reference device is calibrated."""
    studies = schema.studies
    one = studies.c.study_id == study_id
    device = connection.scalar(select(studies.c.reference_device).where(one))
    known = read_calibrations(connection, study_id)
    first = next((one for one in known if one.setting.device_name == device), None)
    return None if first is None else ReferenceTime(first, known)


def keep_calibrations(
    store: Store, study: StudyRecord, found: Sequence[Calibration]
) -> list[Calibration]:
    """Store what was measured, unless it is there already; all that then stands.

    The device of the study's first calibration becomes its reference device, unless one was named.
    """
    table, studies = schema.calibrations, schema.studies
    study_row = studies.c.study_id == study.study_id

    def keep(connection: Connection) -> list[Calibration]:
        # Who comes at the same time waits: numbers are given in turn.
        connection.execute(select(studies.c.uid).where(study_row).with_for_update())
        known = read_calibrations(connection, study.study_id)
        new = [
            one for one in found if not any(each.is_of(one.setting, one.sharing) for each in known)
        ]
        for number, one in enumerate(new, start=len(known)):
            values = {
                "study_id": study.study_id,
                "number": number,
                **asdict(one.setting),
                "sharing": one.sharing,
                "step_seconds": json.dumps(one.step_seconds),
                "measured_at": schema.now(),
            }
            connection.execute(table.insert().values(**values))
            unnamed = studies.update().where(study_row, studies.c.reference_device.is_(None))
            connection.execute(unnamed.values(reference_device=one.setting.device_name))
        return [*known, *new]

    return store.write(keep)
