"""The jobs of a study as a run has last seen them, in either database."""

from __future__ import annotations

from fastrcaps_search.store.holders import JobRecord
from fastrcaps_search.store.jobs import store_jobs
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store


def job(engine: str, id: str, state: str = "waiting", reason: str = "") -> JobRecord:
    return JobRecord(engine=engine, id=id, state=state, host="", reason=reason)


def told(store: Store, study: StudyRecord) -> list[tuple[str, str, str, str]]:
    jobs = store.status(study.name)[1].jobs
    assert all(0 <= one.seen_seconds_ago < 60 for one in jobs)
    return [(job.engine, job.id, job.state, job.reason) for job in jobs]


def test_what_is_stored_takes_the_place_of_what_the_same_engine_had(
    store: Store, study: StudyRecord
) -> None:
    assert told(store, study) == []
    store_jobs(store, study, "slurm", [job("slurm", "9"), job("slurm", "10", reason="a\0b\udc80")])
    store_jobs(store, study, "ray", [job("ray", "x", "running")])
    waiting = [("slurm", "9", "waiting", ""), ("slurm", "10", "waiting", "ab\\udc80")]
    assert told(store, study) == [("ray", "x", "running", ""), *waiting]
    store_jobs(store, study, "slurm", [])
    assert told(store, study) == [("ray", "x", "running", "")]
