"""The device of a command: found, its layout chosen, and calibrated before anything trains."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fastrcaps_search.errors import RunError
from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.search.layouts import DeviceOptions, candidates, choose_layout
from fastrcaps_search.search.machine import MachineInfo, NetworkSeconds, Probe
from fastrcaps_search.search.slots import Slots
from fastrcaps_search.store.calibrations import (
    Calibration,
    keep_calibrations,
    nearest,
    read_calibrations,
)
from fastrcaps_search.store.layouts import WorkerLayout, keep_layout, stored_layouts
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store


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


def calibrated_device(
    store: Store,
    study: StudyRecord,
    options: DeviceOptions,
    *,
    cores: int,
    stop: threading.Event,
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
        name = machine.device_name
        _require_reference(store, study, name)
        asked = options.layout(len(machine.devices), cores=cores)
        on_cpu = machine.devices == ("cpu",)

        def stored() -> tuple[WorkerLayout | None, list[Calibration]]:
            known = store.read(lambda connection: read_calibrations(connection, study.study_id))
            return stored_layouts(store, study, cores=cores).get(name), known

        layout, known = stored()
        if on_cpu and (layout is None or _missing(machine, asked or layout, known)):
            slots.claim(cores, stop=stop, waits=waits)
            # Another command may have measured meanwhile.
            layout, known = stored()
        reason = "as before"
        if layout is None:
            chosen, why = asked or WorkerLayout(1, max(cores // len(machine.devices), 1)), ""
            if asked is None and on_cpu:
                chosen, why = _fastest(probe, study, machine, cores=cores)
            layout = keep_layout(store, study, chosen, device_name=name, cores=cores)
            reason = why if layout == chosen else reason
        begins = asked or layout
        if missing := _missing(machine, begins, known):
            found = probe.calibrate(machine, missing)
            # The layout first: of the reference device, seconds are those of its first one.
            made = [
                Calibration(_setting(machine, one), one.workers, found[one])
                for one in sorted(found, reverse=True)
            ]
            known = keep_calibrations(store, study, made)
    here = nearest(known, _setting(machine, begins), begins.workers)
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
        "first, or name another --reference-device before the first trial"
    )


def _fastest(
    probe: Probe, study: StudyRecord, machine: MachineInfo, *, cores: int
) -> tuple[WorkerLayout, str]:
    """The layout of a CPU that trains fastest, and why."""
    definition = study.definition
    most = (configuration_count(definition) or cores) * definition.runs_per_trial
    layouts = candidates(cores, most=most)
    if len(layouts) == 1:
        return layouts[0], ""
    return choose_layout(definition, *probe.compare(machine, layouts))


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
