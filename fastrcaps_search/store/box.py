"""The box of a study's hypervolume: stored with its first complete trial, and never changed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import product

from sqlalchemy import Connection, func, select

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.front.box import Box
from fastrcaps_search.store.schema import runs, studies


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


def fix_box(connection: Connection, study_id: int, number: int, *, seconds: float) -> None:
    """Store the study's box unless it has one; to be done before the trial is completed.

    Args:
        connection: In the transaction that completes the trial.
        study_id: The study.
        number: The trial.
        seconds: Its training seconds, up to the best epoch.
    """
    one = studies.c.study_id == study_id
    stored = connection.execute(select(studies.c.box, studies.c.definition).where(one)).one()
    if stored.box is not None:
        return
    trial = (runs.c.study_id == study_id) & (runs.c.number == number)
    epochs = connection.scalar(select(func.avg(runs.c.best_epoch)).where(trial))
    definition = StudyDefinition.from_dict(json.loads(stored.definition))
    box = study_box(definition, epoch_seconds=seconds / float(epochs or 1))
    # Whoever comes second waits here for the first, and then finds the box stored.
    fixed = studies.update().where(one, studies.c.box.is_(None))
    connection.execute(fixed.values(box=json.dumps(box.to_dict())))
