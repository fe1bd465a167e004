"""What is said of workers, from signs and leases written out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from fastrcaps_search.analysis.signs import Life, StuckKind, stuck_reasons, worker_states
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.store.holders import JobRecord, LeaseRecord, RunFaults, Sign, WorkerRecord
from fastrcaps_search.store.reading import Signs, Snapshot
from fastrcaps_search.store.records import StudyRecord

STUDY = StudyRecord(1, "s", "uid", StudyDefinition.from_dict({"name": "s"}), 0, 9, 0.0)
ELSEWHERE: dict[str, Any] = {"boot_id": "b", "pid_namespace": "n", "process_start": 5}
TRAINS = Sign(doing="trains", number=3, run=0, epoch=2, epochs=5, images_per_second=7.5)


def sign(name: str, silent: float, does: Sign = TRAINS, *, host: str = "far/1") -> WorkerRecord:
    """A worker of another machine, whose pid is the length of its name."""
    return WorkerRecord(
        **{name: getattr(does, name) for name in Sign.__dataclass_fields__},
        **{"host": host, "pid": len(name), **ELSEWHERE},
        nonce=name,
        worker=name,
        device="cpu",
        device_name="CPU",
        job=None,
        lease_seconds=30.0,
        started_at=1.0,
        seen_at=2.0,
        silent_seconds=silent,
    )


def lease(
    name: str,
    number: int,
    silent: float,
    suspected: float | None = None,
    *,
    purpose: str = "train",
) -> LeaseRecord:
    return LeaseRecord(
        **{"host": "far/1", "pid": len(name), **ELSEWHERE},
        number=number,
        run=0,
        token=1,
        purpose=purpose,
        worker=name,
        device="cpu",
        claimed_at=1.0,
        renewed_at=2.0,
        lease_seconds=30.0,
        silent_seconds=silent,
        suspected_seconds=suspected,
    )


def stuck(
    workers: list[WorkerRecord], leases: list[LeaseRecord], *faults: RunFaults
) -> list[tuple[StuckKind, str]]:
    signs = Signs(workers, list(faults))
    states = worker_states(signs, leases, study=STUDY)
    found = stuck_reasons(Snapshot(STUDY, [], leases, ()), signs, states, run="run again")
    return [(one.kind, one.why) for one in found]


def test_a_worker_that_trains_and_one_that_waits_for_it() -> None:
    signs = Signs([sign("one", 2.0), sign("other", 1.0, Sign(doing="waits"))], [])
    one, other = worker_states(signs, [lease("one", 3, 1.5)], study=STUDY)
    assert (one.life, one.doing, one.trial, one.run, one.purpose) == (
        *(Life.ALIVE, "trains", 3, 0, "train"),
    )
    assert (one.epoch, one.epochs, one.images_per_second) == (2, 5, 7.5)
    # The younger of the two signs.
    assert (one.silent_seconds, one.host) == (1.5, "far")
    assert (other.doing, other.trial, other.waits_for) == (
        *("waits", None, "trial 3 (one, process 3 on far)"),
    )


def test_the_lease_says_which_run_it_is_and_its_sign_is_not_of_the_one_before() -> None:
    (found,) = worker_states(Signs([sign("one", 2.0)], []), [lease("one", 4, 0.5)], study=STUDY)
    assert (found.trial, found.epoch, found.epochs, found.images_per_second) == (
        4,
        None,
        None,
        None,
    )
    testing = lease("one", 3, 0.5, purpose="test")
    (found,) = worker_states(Signs([sign("one", 2.0)], []), [testing], study=STUDY)
    assert (found.doing, found.purpose, found.images_per_second) == ("tests", "test", None)


def test_of_many_runs_that_are_waited_for_three_are_named() -> None:
    held = [lease("x" * number, number, 1.0) for number in range(1, 6)]
    waits = sign("waiting", 1.0, Sign(doing="waits"))
    found = worker_states(Signs([waits], []), held, study=STUDY)
    assert found[0].waits_for == (
        "trial 1 (x, process 1 on far), trial 2 (xx, process 2 on far), trial 3 (xxx, process 3 "
        "on far) and 2 more"
    )
    lost = [*held[:4], lease("y", 9, 45.0, 14.0)]
    found_lost = worker_states(Signs([waits], []), lost, study=STUDY)
    assert (found_lost[0].waits_for or "").startswith(
        "trial 9 (y, process 1 on far, is silent for 45 s, free now), trial 1 (x, process 1 on "
    )
    # Of the others only leases are known.
    assert [(one.trial, one.device_name) for one in found[1:]] == [(n, None) for n in range(1, 6)]


@pytest.mark.parametrize(
    ("silent", "suspected", "when"),
    [
        (9.0, None, None),
        (11.0, None, "in 19 s"),
        # Suspected at 20 s at the earliest, and for ten more.
        (22.0, None, "10 s after one notices"),
        (24.0, 3.0, "in 7 s"),
        (40.0, 11.0, "now"),
        (200.0, None, "10 s after one notices"),
        # A suspicion from before the clock was set back.
        (22.0, -50.0, "10 s after one notices"),
    ],
)
def test_when_a_silent_worker_loses_its_run(
    silent: float, suspected: float | None, when: str | None
) -> None:
    held = lease("one", 3, silent, suspected)
    told = [
        (
            StuckKind.SILENT,
            f"trial 3: one, process 3 on far, which holds it, is silent for {silent:.0f} s; "
            f"another worker can take it over {when}",
        )
    ]
    beside = sign("other", 0.0, Sign(doing="waits"))
    assert stuck([sign("one", silent), beside], [held]) == ([] if when is None else told)


def test_an_idle_worker_has_the_length_of_a_lease_before_it_is_missed() -> None:
    waits = Sign(doing="waits")
    alive = sign("alive", 29.0, waits)
    assert stuck([alive], []) == []
    signs = [alive, sign("gone", 31.0, waits), sign("forgotten", 3601.0, waits)]
    # Nothing waits for it.
    assert stuck(signs, []) == []
    found = worker_states(Signs(signs, []), [], study=STUDY)
    assert [(one.worker, one.life, one.doing) for one in found] == [
        ("alive", Life.ALIVE, "waits"),
        ("gone", Life.SILENT, "holds no run"),
    ]


def test_a_worker_whose_run_was_taken_over_trains_no_more() -> None:
    signs = Signs([sign("gone", 100.0), sign("other", 1.0)], [])
    gone, other = worker_states(signs, [lease("other", 3, 1.0)], study=STUDY)
    assert (gone.life, gone.doing, gone.trial, gone.run, gone.epoch, gone.waits_for) == (
        *(Life.SILENT, "holds no run", None, None, None, None),
    )
    assert (other.doing, other.trial, other.epoch) == ("trains", 3, 2)
    # Before that, it still holds it.
    for silent, doing in ((29.0, "trains"), (31.0, "holds")):
        (held,) = worker_states(
            Signs([sign("gone", silent)], []), [lease("gone", 3, silent)], study=STUDY
        )
        assert (held.doing, held.trial, held.life) == (doing, 3, Life.SILENT)


@pytest.mark.parametrize(
    ("silent", "suspected", "lost"),
    [
        (9.0, None, ""),
        (25.0, None, ", is silent for 25 s, free 10 s after one notices"),
        (35.0, 4.0, ", is silent for 35 s, free in 6 s"),
        (45.0, 14.0, ", is silent for 45 s, free now"),
    ],
)
def test_who_waits_for_the_run_of_a_lost_worker_says_so(
    silent: float, suspected: float | None, lost: str
) -> None:
    waits = sign("waiting", 1.0, Sign(doing="waits"))
    held = lease("one", 3, silent, suspected)
    assert worker_states(Signs([waits], []), [held], study=STUDY)[0].waits_for == (
        f"trial 3 (one, process 3 on far{lost})"
    )


def test_a_clock_that_was_set_back_is_named() -> None:
    ((kind, why),) = stuck([sign("other", 1.0)], [lease("one", 3, -100.0)])
    assert kind is StuckKind.SILENT
    assert "is silent since the database's clock was set back, by 100 s or more" in why


def test_nobody_works_although_work_is_left() -> None:
    line = (
        "no worker trains yet: unless a run is measuring its machine or just starting one, `run "
        "again` begins"
    )
    assert stuck([], []) == [(StuckKind.NO_WORKER, line)]
    gone = sign("gone", 50.0)
    assert [kind for kind, _ in stuck([gone], [])] == [StuckKind.NO_WORKER]
    # With a run it is two things.
    found = [kind for kind, _ in stuck([gone], [lease("gone", 3, 50.0)])]
    assert found == [StuckKind.SILENT, StuckKind.NO_WORKER]


@pytest.mark.parametrize(
    ("state", "seen_seconds_ago", "said"),
    [
        ("waiting", 10.0, None),
        ("waiting", 700.0, "no worker is at work, and nobody watches the jobs any more: `"),
        ("given back", 10.0, "no worker trains yet: unless a run "),
    ],
)
def test_jobs_that_nobody_watches_are_no_workers(
    state: str, seen_seconds_ago: float, said: str | None
) -> None:
    job = JobRecord(
        engine="slurm", id="7", state=state, host="", reason="", seen_seconds_ago=seen_seconds_ago
    )
    found = stuck_reasons(Snapshot(STUDY, [], [], ()), Signs([], [], [job]), [], run="a line")
    assert [(one.kind, one.why.startswith(said or "")) for one in found] == [
        (StuckKind.NO_WORKER, True)
    ] * (said is not None)


def test_runs_that_kill_their_workers_or_devices() -> None:
    # One that died may have been killed by anybody.
    faults = (RunFaults(3, 0, 2, 0), RunFaults(4, 1, 0, 1), RunFaults(5, 0, 1, 0))
    found = stuck([sign("one", 1.0)], [], *faults)
    assert found == [
        (
            StuckKind.DEATHS,
            "trial 3: 2 workers died since its last epoch; with 10 it fails",
        ),
        (
            StuckKind.DEVICE_FAULTS,
            "trial 4 run 1: its device or the memory gave out 1 time since its last epoch",
        ),
    ]
