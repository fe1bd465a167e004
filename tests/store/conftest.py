"""A tiny study in a database of its own, and workers that claim without training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.store.admission import Door
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.place import Location, locate
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store

DoorMaker = Callable[..., Door]


@pytest.fixture
def definition() -> StudyDefinition:
    """A search of 5 x 2 constant and adapting policies of LeNet5: 4 + 4 x 2 + 2 = 14 choices."""
    return StudyDefinition.from_dict(
        {
            "name": "tiny",
            "network": "lenet5",
            "data_set": "mnist-mini",
            "epochs": 2,
            "boundaries": [1],
            "train_images": 64,
            "space": {"adabatch_exponent": [2, 3]},
        }
    )


@pytest.fixture
def location(tmp_path: Path) -> Location:
    """Where the database will be."""
    return locate(str(tmp_path / "fastrcaps.db"))


@pytest.fixture
def study(location: Location, definition: StudyDefinition) -> StudyRecord:
    """The study, stored, with a budget of 4."""
    return enter_study(location, definition, seed=None, budget=4)


@pytest.fixture
def store(location: Location, study: StudyRecord) -> Iterator[Store]:
    """The store, open for writing."""
    opened = Store.writing(location)
    yield opened
    opened.close()


@pytest.fixture
def make_door(store: Store, study: StudyRecord) -> Iterator[DoorMaker]:
    """Makes doors to the study, closed at the end."""
    with ExitStack() as stack:

        def make(
            worker: str = "w0", *, device: str = "cpu", of: StudyRecord | None = None
        ) -> Door:
            door = Door(store, of or study, worker=worker, device=device, propose=propose)
            stack.callback(door.close)
            return door

        yield make
