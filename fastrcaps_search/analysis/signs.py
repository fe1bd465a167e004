"""Who works on a study and how, and what is stuck and why: signs of life and leases together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fastrcaps_search.store.ending import MOST_DEATHS
from fastrcaps_search.store.holders import (
    GIVEN_BACK,
    LeaseRecord,
    WorkerRecord,
    held_trials,
    live_leases,
)
from fastrcaps_search.store.reading import Signs, Snapshot
from fastrcaps_search.store.records import Purpose, StudyRecord, TrialState
from fastrcaps_search.store.trials import TrialRecord
from fastrcaps_search.words import numbered, plural

MOST_NAMED = 3
"""Runs that a worker waits for which are named one by one."""
HOLDS = "holds"
"""Of a worker whose lease has run out, or that is dead, while nobody has taken its run over."""
HOLDS_NOTHING = "holds no run"
"""Of a worker that has ended, or is not heard, and whose run others may have by now."""
PURPOSES = {Purpose.TRAIN: "trains", Purpose.TEST: "tests"}
"""What a worker does that holds a run."""


class Life(StrEnum):
    """Whether a worker lives, as far as can be told from here."""

    ALIVE = "alive"
    SILENT = "silent"
    SUSPENDED = "suspended"
    DEAD = "dead"


class StuckKind(StrEnum):
    """What is not as it should be."""

    SILENT = "silent"
    SUSPENDED = "suspended"
    DEAD = "dead"
    DEATHS = "deaths"
    DEVICE_FAULTS = "device_faults"
    NO_WORKER = "no_worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """A worker of a study.

    Attributes:
        worker: Its name.
        host: Name of its machine.
        pid: Its process there.
        device: Device that it trains on.
        device_name: Name of the processor or card; ``None`` while it is unknown.
        job: Job of a batch system that it runs in, in words.
        life: Whether it lives.
        doing: ``starts``, ``trains``, ``tests``, ``waits``, ``waits for cores``, ``measures`` or,
            where it is not alive, ``holds`` (its lease has run out) or ``holds no run``.
        trial: The trial at hand.
        run: Index of its run.
        purpose: ``train`` or ``test``, where it holds the run.
        epoch: Last epoch that it ended or is in.
        epochs: Epochs of the training.
        images_per_second: Of that epoch; ``None`` where it is not known to train now.
        waits_for: Who holds the runs or uses the cores that it waits for.
        started_at: Seconds since 1970, on the database's clock; ``None`` where unknown.
        silent_seconds: Age of the last sign of life.
    """

    worker: str
    host: str
    pid: int
    device: str
    device_name: str | None
    job: str | None
    life: Life
    doing: str
    trial: int | None
    run: int | None
    purpose: str | None
    epoch: int | None
    epochs: int | None
    images_per_second: float | None
    waits_for: str | None
    started_at: float | None
    silent_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """Something that is not as it should be.

    Attributes:
        kind: What.
        why: In words.
        worker: The worker, where it is one.
        host: Name of its machine.
        trial: The trial, where it is one.
        run: Index of its run.
    """

    kind: StuckKind
    why: str
    worker: str | None = None
    host: str | None = None
    trial: int | None = None
    run: int | None = None


def worker_states(
    signs: Signs, leases: Sequence[LeaseRecord], *, study: StudyRecord
) -> tuple[WorkerStatus, ...]:
    """The workers of a study, those included that have ended without a word a short while ago.

    Args:
        signs: Their signs.
        leases: All leases of the same moment.
        study: The study.
    """
    held, awaited = {lease.holder: lease for lease in leases}, holders(leases, study)
    known = {one.holder: one for one in signs.workers if not one.is_forgotten}
    return (
        *(_state(one, held.get(who), awaited) for who, one in known.items()),
        *(_unsigned(lease) for lease in live_leases(leases) if lease.holder not in known),
    )


def _state(sign: WorkerRecord, lease: LeaseRecord | None, awaited: str | None) -> WorkerStatus:
    doing, number, run, purpose = sign.doing, sign.number, sign.run, None
    silent = sign.silent_seconds
    if lease is not None:
        purpose = lease.purpose
        number, run = lease.number, lease.run
        doing = PURPOSES[Purpose(purpose)] if live_leases([lease]) else HOLDS
        silent = min(silent, lease.silent_seconds)
    life = _life(sign, silent, of_lease=1 / 3 if lease is not None else 1)
    if lease is None and life is not Life.ALIVE:
        # Its sign is one of before it lost the run.
        doing, number, run = HOLDS_NOTHING, None, None
    # After the claim of a run its sign is still one of the run before.
    is_of_run = (sign.number, sign.run) == (number, run)
    moves = is_of_run and doing == PURPOSES[Purpose.TRAIN] and life is Life.ALIVE
    return WorkerStatus(
        worker=sign.worker,
        host=sign.host_name,
        pid=sign.pid,
        device=sign.device,
        device_name=sign.device_name or None,
        job=sign.job,
        life=life,
        doing=doing,
        trial=number,
        run=run,
        purpose=purpose,
        epoch=sign.epoch if is_of_run else None,
        epochs=sign.epochs if is_of_run else None,
        images_per_second=sign.images_per_second if moves else None,
        waits_for={"waits": awaited, HOLDS_NOTHING: None}.get(doing, sign.awaited),
        started_at=sign.started_at,
        silent_seconds=silent,
    )


def _unsigned(lease: LeaseRecord) -> WorkerStatus:
    """A worker of which only its lease is known."""
    return WorkerStatus(
        worker=lease.worker,
        host=lease.host_name,
        pid=lease.pid,
        device=lease.device,
        device_name=None,
        job=None,
        life=_life(lease, lease.silent_seconds, of_lease=1 / 3),
        doing=PURPOSES[Purpose(lease.purpose)],
        trial=lease.number,
        run=lease.run,
        purpose=lease.purpose,
        epoch=None,
        epochs=None,
        images_per_second=None,
        waits_for=None,
        started_at=None,
        silent_seconds=lease.silent_seconds,
    )


def _life(who: WorkerRecord | LeaseRecord, silent: float, *, of_lease: float) -> Life:
    """Whether a worker lives.

    Args:
        who: The worker.
        silent: Seconds since it was last heard.
        of_lease: What share of its lease it may be silent: less while it renews one, as an idle
            worker may be busy with images or proposals for a while.
    """
    if who.is_known_dead:
        return Life.DEAD
    if who.is_known_suspended:
        return Life.SUSPENDED
    # After the clock was set back all are silent, until they are heard again.
    is_heard = 0 <= silent <= of_lease * who.lease_seconds
    return Life.ALIVE if is_heard else Life.SILENT


def holders(leases: Sequence[LeaseRecord], study: StudyRecord) -> str | None:
    """Who holds the runs that an idle worker waits for; those that may be lost come first."""
    lives = [_life(one, one.silent_seconds, of_lease=1 / 3) for one in leases]
    found = sorted(zip(leases, lives, strict=True), key=lambda pair: pair[1] is Life.ALIVE)
    named = []
    for one, life in found[:MOST_NAMED]:
        lost = "" if life is Life.ALIVE else f", {_what(life, one)}, free {_when(one)}"
        named.append(f"{_run_words(one.number, one.run, study)} ({_process_words(one)}{lost})")
    more = f" and {len(leases) - MOST_NAMED:,} more" if len(leases) > MOST_NAMED else ""
    return ", ".join(named) + more or None


def interrupted_trials(
    trials: Sequence[TrialRecord], live: Sequence[LeaseRecord]
) -> tuple[int, ...]:
    """Numbers of the trials without an end of which no worker holds a run."""
    held = held_trials(live)
    running = (one.number for one in trials if one.state is TrialState.RUNNING)
    return tuple(number for number in running if number not in held)


def stuck_reasons(
    seen: Snapshot, signs: Signs, workers: Sequence[WorkerStatus], *, run: str
) -> tuple[Stuck, ...]:
    """What is stuck in a study where work is left, and why.

    Args:
        seen: The study and its leases.
        signs: What was read with them.
        workers: As :func:`worker_states` gives them.
        run: The command line that goes on with the study.
    """
    found = [*_lost(seen, signs), *_faulty(signs, seen.study)]
    # Those that wait in an engine's queue say why themselves.
    jobs = [job for job in signs.jobs if job.state != GIVEN_BACK]
    is_watched = any(job.is_watched for job in jobs)
    if not is_watched and not any(one.life is Life.ALIVE for one in workers):
        why = _nobody(seen, run, has_jobs=bool(jobs))
        found.append(Stuck(kind=StuckKind.NO_WORKER, why=why))
    return tuple(found)


def _nobody(seen: Snapshot, run: str, *, has_jobs: bool) -> str:
    """That no worker is seen, and how to go on; a run that measures its machine has none yet."""
    if has_jobs:
        return f"no worker is at work, and nobody watches the jobs any more: `{run}` does"
    unless = "unless a run is measuring its machine or just starting one"
    if not seen.trials:
        return f"no worker trains yet: {unless}, `{run}` begins"
    left = interrupted_trials(seen.trials, live_leases(seen.leases))
    what = f" with {numbered('trial', left, limit=MOST_NAMED)}" if left else ""
    return f"no worker is at work: {unless}, `{run}` goes on{what}"


def _lost(seen: Snapshot, signs: Signs) -> Iterator[Stuck]:
    """Workers that hold a run and are not heard, and those that are suspended without one.

    Nobody waits for what else has gone.
    """
    for lease in seen.leases:
        life = _life(lease, lease.silent_seconds, of_lease=1 / 3)
        if life is not Life.ALIVE:
            words = _run_words(lease.number, lease.run, seen.study)
            # The one word for both holds, whatever it does with the run.
            yield Stuck(
                kind=StuckKind(life),
                why=f"{words}: {_process_words(lease)}, which holds it, {_what(life, lease)}; "
                f"another worker can take it over {_when(lease)}",
                worker=lease.worker,
                host=lease.host_name,
                trial=lease.number,
                run=lease.run,
            )
    holding = {lease.holder for lease in seen.leases}
    for sign in signs.workers:
        life = _life(sign, sign.silent_seconds, of_lease=1)
        if life is Life.SUSPENDED and not (sign.holder in holding or sign.is_forgotten):
            yield Stuck(
                kind=StuckKind.SUSPENDED,
                why=f"{_process_words(sign)}, which holds no run, {_what(life, sign)}",
                worker=sign.worker,
                host=sign.host_name,
            )


def _what(life: Life, who: WorkerRecord | LeaseRecord) -> str:
    """What has happened to a worker that is not heard."""
    silent = f"silent for {who.silent_seconds:.0f} s"
    if who.silent_seconds < 0:
        ahead = f"{-who.silent_seconds:.0f} s"
        silent = f"silent since the database's clock was set back, by {ahead} or more"
    return {
        Life.DEAD: "is dead",
        Life.SUSPENDED: f"is suspended (SIGSTOP or Ctrl-Z) and {silent}",
    }.get(life, f"is {silent}")


def _when(lease: LeaseRecord) -> str:
    """When a run may be taken over; the last third counts from when another worker sees it."""
    seconds = lease.free_in_seconds
    if lease.is_to_be_suspected and not lease.is_known_dead:
        return f"{seconds:.0f} s after one notices"
    return f"in {seconds:.0f} s" if seconds >= 0.5 else "now"


def _faulty(signs: Signs, study: StudyRecord) -> Iterator[Stuck]:
    """Runs that kill their workers, or on which devices give out."""
    for one in signs.faults:
        words = _run_words(one.number, one.run, study)
        # One may have been killed by anybody.
        if one.deaths > 1:
            yield Stuck(
                kind=StuckKind.DEATHS,
                why=f"{words}: {plural(one.deaths, 'worker')} died since its last epoch; with "
                f"{MOST_DEATHS} it fails",
                trial=one.number,
                run=one.run,
            )
        if one.device_faults:
            yield Stuck(
                kind=StuckKind.DEVICE_FAULTS,
                why=f"{words}: its device or the memory gave out "
                f"{plural(one.device_faults, 'time')} since its last epoch",
                trial=one.number,
                run=one.run,
            )


def _run_words(number: int, run: int, study: StudyRecord) -> str:
    """A run in words; a trial's only run needs no number."""
    is_only = run == 0 and study.definition.runs_per_trial == 1
    return f"trial {number}" if is_only else f"trial {number} run {run}"


def _process_words(who: WorkerRecord | LeaseRecord) -> str:
    return f"{who.worker}, process {who.pid} on {who.host_name}"
