"""What a run trains on: the devices, their speed, and the workers that share them."""

from __future__ import annotations

from dataclasses import dataclass

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search import estimate
from fastrcaps_search.search.crews import Wanted, fastest, reason
from fastrcaps_search.search.probing import Seen
from fastrcaps_search.store.crews import Crew, KeptCrew


@dataclass(frozen=True, slots=True)
class Machine:
    """What the workers will train on.

    Attributes:
        devices: ``cpu``, or the cards.
        device_name: Name of the first.
        costs: Measured seconds per step.
        workers: Workers to start.
        threads: Threads of each.
        reason: Why these, in few words; empty where nothing was chosen.
        warning: One line where the seconds of this run will not compare with the study's others.
    """

    devices: tuple[str, ...]
    device_name: str
    costs: estimate.StepCosts
    workers: int
    threads: int
    reason: str = ""
    warning: str | None = None

    @property
    def words(self) -> str:
        """``2 workers with 1 thread (as before) on CPU Intel``."""
        why = f" ({self.reason})" if self.reason else ""
        return f"{Crew(self.workers, self.threads).words}{why} on {self.device_name}"


def new_crew(definition: StudyDefinition, wanted: Wanted, seen: Seen, *, cores: int) -> KeptCrew:
    """The crew of a study that has none on this device yet: as asked, or else the fastest."""
    devices = len(seen.devices)
    asked = wanted.crew(devices, cores=cores)
    if asked is None and seen.devices == ("cpu",):
        rates = {
            crew: estimate.images_per_second(definition, costs, workers=crew.workers)
            for crew, costs in seen.measured.items()
        }
        chosen = fastest(rates)
        return KeptCrew(chosen, seen.measured[chosen].seconds, rates)
    crew = asked or Crew(1, max(cores // devices, 1))
    return KeptCrew(crew, _costs(seen, crew).seconds)


def staffed(wanted: Wanted, seen: Seen, kept: KeptCrew, *, cores: int, left: int) -> Machine:
    """The machine with the workers that were asked for, or else with those of the study's crew.

    Args:
        wanted: What was asked for.
        seen: What is here.
        kept: The study's crew on this device.
        cores: Cores of this machine.
        left: Trials that are left: unless asked for, no more workers than these are started.
    """
    devices = len(seen.devices)
    crew = wanted.crew(devices, cores=cores) or kept.crew
    why, warning = "", None
    if crew != kept.crew:
        warning = (
            f"{crew.words} on {seen.device_name} instead of {kept.crew.words}, as the study began "
            "there: its seconds will not compare"
        )
    elif wanted.chooses:
        why = reason(crew, kept.images_per_second) if seen.measured else "as before"
    return Machine(
        devices=seen.devices,
        device_name=seen.device_name,
        costs=_costs(seen, crew) if seen.measured else estimate.StepCosts(kept.step_seconds),
        workers=wanted.total(devices) or max(min(crew.workers * devices, left), 1),
        threads=crew.threads,
        reason=why,
        warning=warning,
    )


def _costs(seen: Seen, crew: Crew) -> estimate.StepCosts:
    """Costs that were measured with this crew, or else with what was measured at all."""
    return seen.measured.get(crew) or next(iter(seen.measured.values()))
