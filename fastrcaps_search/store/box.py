"""The box of a study's hypervolume: stored with its first complete trial, and never changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from math import fsum
from statistics import fmean

from sqlalchemy import Connection, select

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.front.box import Box
from fastrcaps_search.store.schema import runs, studies


def study_box(
    definition: StudyDefinition,
    *,
    epoch_seconds: float,
    others: Mapping[str, float] | None = None,
) -> Box:
    """The box of a study whose first complete trial took so long for an epoch, with these values.

    Args:
        definition: The study.
        epoch_seconds: Training seconds per epoch.
        others: Values in the objectives beyond the common three.
    """
    return Box.of(
        guessing=definition.guessing_accuracy,
        epoch_seconds=epoch_seconds,
        epochs=definition.offered_epochs[-1],
        parameters=(
            definition.architecture.parameters(decoder, weight_sharing)
            for decoder, weight_sharing in _networks(definition)
        ),
        others=others,
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
    ended = connection.execute(
        select(runs.c.training_seconds, runs.c.best_epoch, runs.c.others).where(
            runs.c.study_id == study_id,
            runs.c.number == number,
            runs.c.run < definition.runs_per_trial,
            runs.c.accuracy.is_not(None),
        )
    ).all()
    if len(ended) == definition.runs_per_trial:
        seconds, epochs = (fsum(row[column] for row in ended) for column in (0, 1))
        values = [json.loads(row.others or "{}") for row in ended]
        others = {name: fmean(one[name] for one in values) for name in values[0]}
        box = study_box(definition, epoch_seconds=seconds / (epochs or 1), others=others)
        fixed = studies.update().where(one, studies.c.box.is_(None))
        connection.execute(fixed.values(box=json.dumps(box.to_dict())))
