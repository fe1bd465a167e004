"""What follows for a trial when one of its runs ends: runs given up with it, the study's box."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import product

from sqlalchemy import Connection, func, select

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.front.box import Box
from fastrcaps_search.store.records import GIVEN_UP, Failure, Purpose, RunKey
from fastrcaps_search.store.schema import failure_columns, leases, now, runs, studies, trials


def lock_trial(connection: Connection, study_id: int, number: int) -> None:
    """Keep others from failing a trial, or beginning a run of it, until the transaction ends."""
    own = (trials.c.study_id == study_id) & (trials.c.number == number)
    connection.execute(select(trials.c.number).where(own).with_for_update())


def give_up_siblings(connection: Connection, study_id: int, key: RunKey) -> None:
    """End the other runs of a trial that has failed by ``key``; their workers lose them."""
    beside = (runs.c.study_id == study_id) & (runs.c.number == key.number)
    beside &= (runs.c.run != key.run) & runs.c.finished_at.is_(None)
    failure = Failure(GIVEN_UP, f"given up, as run {key.run} failed", "", "")
    connection.execute(
        runs.update()
        .where(beside)
        .values(token=runs.c.token + 1, finished_at=now(), **failure_columns(failure))
    )
    own = (leases.c.study_id == study_id) & (leases.c.number == key.number)
    connection.execute(
        leases.delete().where(own, leases.c.run != key.run, leases.c.purpose == Purpose.TRAIN)
    )


def study_box(definition: StudyDefinition, *, epoch_seconds: float) -> Box:
    """The box of a study whose first complete trial took so long for an epoch."""
    return Box.of(
        guessing=definition.guessing_accuracy,
        epoch_seconds=epoch_seconds,
        epochs=definition.offered_epochs[-1],
        parameters=(
            definition.architecture.parameters(decoder, weight_sharing)
            for decoder, weight_sharing in _networks(definition)
        ),
    )


def _networks(definition: StudyDefinition) -> Iterable[tuple[Decoder | None, bool | None]]:
    """Decoder and weight sharing of each network that the study allows."""
    space = definition.space
    if space is None:
        return {(each.decoder, each.weight_sharing) for each in definition.configurations}
    return product(space.decoder or (None,), space.weight_sharing or (None,))


@contextmanager
def fix_box(connection: Connection, study_id: int, number: int) -> Iterator[None]:
    """End a run of a trial within; store the study's box where that completes its first trial.

    Args:
        connection: In the transaction that ends the run.
        study_id: The study.
        number: The trial.
    """
    one = studies.c.study_id == study_id
    known = connection.scalar(select(studies.c.box).where(one))
    definition = None
    if known is None:
        # Whoever comes second waits here for the first.
        text = connection.scalar(select(studies.c.definition).where(one).with_for_update())
        definition = StudyDefinition.from_dict(json.loads(str(text)))
    yield
    if definition is None:
        return
    ended = select(func.count(), func.avg(runs.c.training_seconds), func.avg(runs.c.best_epoch))
    count, seconds, epochs = connection.execute(
        ended.where(
            runs.c.study_id == study_id,
            runs.c.number == number,
            runs.c.run < definition.runs_per_trial,
            runs.c.accuracy.is_not(None),
        )
    ).one()
    if count == definition.runs_per_trial:
        box = study_box(definition, epoch_seconds=float(seconds) / float(epochs or 1))
        fixed = studies.update().where(one, studies.c.box.is_(None))
        connection.execute(fixed.values(box=json.dumps(box.to_dict())))
