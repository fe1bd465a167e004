"""The device of a command: found, its layout chosen, and calibrated before anything trains."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import RunError
from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.search.layouts import DeviceOptions, candidates, choose_layout
from fastrcaps_search.search.machine import MachineInfo, NetworkSeconds, Probe
from fastrcaps_search.search.measuring import announcement, longer, step_in_words
from fastrcaps_search.search.signs import own_job
from fastrcaps_search.search.slots import Slots
from fastrcaps_search.store.calibrations import (
    Calibration,
    keep_calibrations,
    nearest,
    read_calibrations,
)
from fastrcaps_search.store.claiming import Claimant
from fastrcaps_search.store.holders import Sign
from fastrcaps_search.store.layouts import WorkerLayout, keep_layout, stored_layouts
from fastrcaps_search.store.presence import Presence
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store

MEASURER, MEASURES = "calibration", "measures"
"""Who signs in the place of workers while a device is measured, and what it does."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A device on which training may begin.

    Attributes:
        machine: What is here.
        layout: The study's layout on it.
        step_seconds: Seconds of a step in the layout that is to be started.
        reason: Why the study has this layout.
    """

    machine: MachineInfo
    layout: WorkerLayout
    step_seconds: NetworkSeconds
    reason: str


def device_here(
    definition: StudyDefinition, options: DeviceOptions, *, cores: int, stop: threading.Event
) -> str:
    """Name of the device here that was asked for.

    Raises:
        InterruptedRunError: Asked to stop.
        UsageError: It is not here, or there are several kinds.
        RunError: Torch cannot say.
    """
    with Probe(definition, threads=cores, stop=stop) as probe:
        return probe.look(options.devices).device_name


def announced(
    store: Store, study: StudyRecord, options: DeviceOptions, tell: Callable[[str], None]
) -> bool:
    """Say what will be measured where that is certain, as nothing was yet; whether it was said.

    Torch takes seconds to say what is here.
    """
    known = store.read(lambda connection: read_calibrations(connection, study.study_id))
    if known or study.reference_device is not None:
        return False
    tell(announcement(study.definition, on_cpu=options.may_use_cpu))
    return True


def calibrated_device(
    store: Store,
    study: StudyRecord,
    options: DeviceOptions,
    *,
    cores: int,
    stop: threading.Event,
    is_told: bool,
    tell: Callable[[str], None],
    waits: Callable[[str], None],
) -> Calibrated:
    """Find the device, choose the study's layout there, and measure what was not measured yet.

    That is how long a step takes in the layout, and with one worker alone, for all networks and
    batch sizes of the study: once for all equal devices that work on it.

    Args:
        store: The store, open for writing.
        study: The study.
        options: Devices and workers that were asked for.
        cores: Cores of this machine for the command.
        stop: Set when the run is to stop.
        is_told: Whether it was said already what is measured (:func:`announced`).
        tell: Called with what is measured, and what was found, a line each.
        waits: Called where the cores are not free, with who holds them.

    Raises:
        InterruptedRunError: Asked to stop.
        UsageError: The device that was asked for is not here, or there are several kinds.
        RunError: The measurement failed, or another device must be calibrated first.
    """
    with (
        Slots(owner=f"measuring for study {study.name}") as slots,
        Probe(study.definition, threads=cores, stop=stop) as probe,
    ):
        machine = probe.look(options.devices)
        _require_reference(store, study, machine.device_name)
        asked = options.layout(len(machine.devices), cores=cores)
        measuring = _Measuring(store, study, probe, machine, cores, asked, tell)
        on_cpu = machine.devices == ("cpu",)
        layout, known = measuring.stored()
        if on_cpu and not measuring.is_complete(layout, known):
            slots.claim(cores, stop=stop, waits=waits)
            # Another command may have measured meanwhile.
            layout, known = measuring.stored()
        reason = "as before"
        if layout is None or not measuring.is_complete(layout, known):
            if not is_told:
                tell(announcement(study.definition, on_cpu=on_cpu))
            layout, known, reason = measuring.measured(layout, known)
    chosen = asked or layout
    here = nearest(known, _setting(machine, chosen), chosen.workers)
    return Calibrated(machine, layout, here.step_seconds, reason)


def _require_reference(store: Store, study: StudyRecord, name: str) -> None:
    """Make sure that seconds can be stored, which may be those of another device."""
    reference = store.study(study.name).reference_device
    known = store.read(lambda connection: read_calibrations(connection, study.study_id))
    if reference in (None, name, *(one.setting.device_name for one in known)):
        return
    raise RunError(
        f"study {study.name} counts in seconds of {reference}, which must be calibrated before "
        f"{name} can train for it; start `fastrcaps-search worker --study {study.name}` there "
        "first, or name another --reference-device before the first trial (`fastrcaps-search "
        "doctor` says what is here)"
    )


@dataclass(frozen=True, slots=True)
class _Measuring:
    """What is measured of a device.

    Attributes:
        store: The store, open for writing.
        study: The study.
        probe: Measures.
        machine: What is here.
        cores: Cores of this machine for the command.
        asked: The layout that was asked for.
        tell: Called with what was found.
    """

    store: Store
    study: StudyRecord
    probe: Probe
    machine: MachineInfo
    cores: int
    asked: WorkerLayout | None
    tell: Callable[[str], None]

    def stored(self) -> tuple[WorkerLayout | None, list[Calibration]]:
        """The study's layout on the device, and all its calibrations."""
        study, name = self.study, self.machine.device_name
        known = self.store.read(lambda connection: read_calibrations(connection, study.study_id))
        return stored_layouts(self.store, study, cores=self.cores).get(name), known

    def is_complete(self, layout: WorkerLayout | None, known: Sequence[Calibration]) -> bool:
        """Whether all that is needed is known."""
        return layout is not None and not _missing(self.machine, self.asked or layout, known)

    def measured(
        self, layout: WorkerLayout | None, known: list[Calibration]
    ) -> tuple[WorkerLayout, list[Calibration], str]:
        """Measure what is missing and store it.

        Returns:
            The study's layout, all calibrations, and why it has that layout.
        """
        began = time.monotonic()
        with _signed(self.store, self.study, self.machine, self.probe):
            reason = "as before"
            if layout is None:
                chosen, why = self._fastest()
                name = self.machine.device_name
                layout = keep_layout(
                    self.store, self.study, chosen, device_name=name, cores=self.cores
                )
                reason = why if layout == chosen else reason
            begins = self.asked or layout
            if missing := _missing(self.machine, begins, known):
                found = self.probe.calibrate(self.machine, missing)
                # The layout first: of the reference device, seconds are those of its first one.
                made = [
                    Calibration(_setting(self.machine, one), one.workers, found[one])
                    for one in sorted(found, reverse=True)
                ]
                known = keep_calibrations(self.store, self.study, made)
                took = f"measured in {max(time.monotonic() - began, 1.0):.0f} s: "
                self.tell(took + step_in_words(made[0].step_seconds))
        return layout, known, reason

    def _fastest(self) -> tuple[WorkerLayout, str]:
        """The layout that was asked for; else that of a CPU which trains fastest, and why."""
        definition, machine = self.study.definition, self.machine
        if self.asked is not None or machine.devices != ("cpu",):
            each = WorkerLayout(1, max(self.cores // len(machine.devices), 1))
            return self.asked or each, ""
        most = (configuration_count(definition) or self.cores) * definition.runs_per_trial
        layouts = candidates(self.cores, most=most)
        if len(layouts) == 1:
            return layouts[0], ""
        compared, left_out = self.probe.compare(machine, layouts)
        chosen, why = choose_layout(definition, compared, left_out)
        if line := longer(definition, chosen, compared[chosen]):
            self.tell(line)
        return chosen, why


@contextmanager
def _signed(
    store: Store, study: StudyRecord, machine: MachineInfo, probe: Probe
) -> Iterator[None]:
    """Leave signs of life while a machine is measured: its workers have not begun."""
    claimant = Claimant(store=store, study=study, worker=MEASURER, device=machine.devices[0])
    presence = Presence(claimant, job=own_job(os.environ))
    presence.sign, presence.device_name = Sign(doing=MEASURES), machine.device_name
    presence.begin()
    probe.beat = presence.beat
    try:
        yield
    finally:
        presence.end()


def _setting(machine: MachineInfo, layout: WorkerLayout) -> RunSetting:
    return replace(machine.setting, threads=layout.threads)


def _missing(
    machine: MachineInfo, layout: WorkerLayout, known: Sequence[Calibration]
) -> list[WorkerLayout]:
    """What is to be measured of the device: the layout, and one of its workers alone."""
    return [
        one
        for one in sorted({layout, WorkerLayout(1, layout.threads)})
        if not any(each.is_of(_setting(machine, one), one.workers) for each in known)
    ]
