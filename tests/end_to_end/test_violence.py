"""Workers that are killed, halted and cut off at random: nothing lost, nothing twice."""

from __future__ import annotations

import queue
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any

import pytest

from fastrcaps_search.definition.load import load_study
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.search.events import Events
from fastrcaps_search.search.launch import WorkerSpec
from fastrcaps_search.store.location import Location, locate
from tests.end_to_end.stub_worker import EPOCHS, STUBBED
from tests.end_to_end.violence import (
    COMA,
    KILL,
    RealProcess,
    Stubs,
    Violence,
    begin,
    check_stub_figures,
    check_study,
    figures,
    nursery,
)

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command
    from tests.postgres import PostgresServer, Stop

pytestmark = pytest.mark.slow

BUDGET = 40


@pytest.fixture(scope="module")
def forks() -> Iterator[socket]:
    """Socket of the process that forks stub workers."""
    with nursery() as orders:
        yield orders


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """A new database."""
    files = str(tmp_path / "files")
    (tmp_path / "files").mkdir()
    if request.param == "sqlite":
        return locate(str(tmp_path / "shared.db"), files=files)
    return locate(request.getfixturevalue("postgres_url"), files=files)


def seeds(first: int, *, endurance: int) -> list[object]:
    """A seed for the default run, and some that are run when asked for."""
    more = range(first + 1, first + 1 + endurance)
    return [first, *(pytest.param(seed, marks=pytest.mark.endurance) for seed in more)]


# A short round by default, and some long ones that are run when asked for.
ROUNDS = [
    (1, 20),
    *(pytest.param(seed, 40, marks=pytest.mark.endurance) for seed in range(2, 12)),
]
WORDS_BETWEEN = 8


# On PostgreSQL, test_claiming shares a budget and test_together runs at once; here all is killed.
@pytest.mark.parametrize(
    "location",
    ["sqlite", pytest.param("postgresql", marks=pytest.mark.endurance)],
    indirect=True,
)
@pytest.mark.parametrize(("seed", "budget"), ROUNDS)
def test_the_budget_is_exact_and_every_value_right(
    forks: socket, location: Location, seed: int, budget: int
) -> None:
    count = configuration_count(STUBBED)
    assert count is not None
    assert count >= 60
    begin(location, STUBBED, seed=seed, budget=budget)
    stubs = Stubs(orders=forks, location=location, study="stubbed", lease_seconds=2.0)
    with Violence(
        stubs.start,
        stubs.events,
        names=[f"worker-{number}" for number in range(8)],
        seed=seed,
        coma_seconds=5.0,
        words_between=WORDS_BETWEEN,
    ) as violence:
        violence.run()
    print(violence.told)
    check_stub_figures(check_study(location, "stubbed", budget=budget, epochs=EPOCHS))
    assert set(violence.claims) == set(range(budget))
    assert violence.claims.total() > budget
    assert max(violence.ends.values()) == 1
    assert violence.strokes[KILL.name] > 5
    assert violence.strokes[COMA.name] > 0
    assert violence.words["lost"] > 0


@pytest.fixture(scope="module")
def tiny(make_command: Callable[[], Command]) -> str:
    """A file with six trainings of six epochs."""
    path = make_command().folder / "listed.toml"
    text = path.read_text()
    assert "epochs = 8" in text
    path.write_text(text.replace("epochs = 8", "epochs = 6"))
    return str(path)


def real_crew(location: Location, *, seed: int, most_strokes: int) -> Violence:
    """Two workers as a run starts them, with a core each."""
    events: Events = queue.Queue()

    def start(name: str) -> RealProcess:
        spec = WorkerSpec(
            study="listed",
            name=name,
            device="cpu",
            threads=1,
            location=location,
            log=location.files / f"{name}.log",
            lease_seconds=3.0,
            store_patience=600.0,
        )
        return RealProcess(spec, events)

    return Violence(
        start,
        events,
        names=["worker-0", "worker-1"],
        seed=seed,
        coma_seconds=12.0,
        words_between=6,
        most_strokes=most_strokes,
    )


@pytest.fixture(scope="module")
def undisturbed(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Figures of six real trainings without a disturbance."""
    location = locate(str(tmp_path_factory.mktemp("undisturbed") / "peaceful.db"))
    begin(location, load_study(tiny), seed=3, budget=6)
    with real_crew(location, seed=0, most_strokes=0) as crew:
        crew.run()
    return figures(check_study(location, "listed", budget=6, epochs=6))


# On SQLite, trainings are killed in test_interrupted too.
@pytest.mark.parametrize(
    "location",
    [pytest.param("sqlite", marks=pytest.mark.endurance), "postgresql"],
    indirect=True,
)
@pytest.mark.parametrize("seed", seeds(2, endurance=5))
def test_every_figure_of_real_trainings_is_that_of_an_undisturbed_study(
    tiny: str, undisturbed: list[Any], location: Location, seed: int
) -> None:
    begin(location, load_study(tiny), seed=3, budget=6)
    with real_crew(location, seed=seed, most_strokes=8) as violence:
        violence.run()
    print(violence.told)
    assert figures(check_study(location, "listed", budget=6, epochs=6)) == undisturbed
    assert violence.strokes.total() > 2
    assert violence.claims.total() > 6


LEASE_SECONDS = 10.0
OUTAGE_SECONDS = 12.0


@pytest.mark.parametrize(
    "outages",
    [
        ("immediate",),
        pytest.param(("fast", "immediate", "fast"), marks=pytest.mark.endurance),
    ],
)
def test_outages_cost_nothing_but_the_wait(
    forks: socket,
    own_postgres_server: PostgresServer,
    tmp_path: Path,
    outages: tuple[Stop, ...],
) -> None:
    server = own_postgres_server
    location = locate(server.new_database(), files=str(tmp_path))
    begin(location, STUBBED, seed=0, budget=BUDGET)
    stubs = Stubs(orders=forks, location=location, study="stubbed", lease_seconds=LEASE_SECONDS)
    names = [f"worker-{number}" for number in range(4)]
    with Violence(
        stubs.start,
        stubs.events,
        names=names,
        seed=0,
        coma_seconds=0.0,
        words_between=1,
        most_strokes=0,
        limit_seconds=180.0,
    ) as crew:
        for number, mode in enumerate(outages, start=1):
            crew.run_until_completed(10 * number)
            server.stop(mode)
            crew.run_for(OUTAGE_SECONDS)
            server.start()
        crew.run()
    trials = check_study(location, "stubbed", budget=BUDGET, epochs=EPOCHS)
    check_stub_figures(trials)
    # Nobody died, and nobody lost a trial, although each outage was longer than a lease.
    assert crew.words["started"] == len(names)
    assert crew.words["ended"] == len(names)
    assert {epoch.token for trial in trials for epoch in trial.epochs} == {1}
    assert crew.words["store_out"] >= len(outages)
    assert crew.words["store_back"] == crew.words["store_out"]


def test_an_outage_beyond_the_patience_ends_the_run_which_goes_on_later(
    command: Command,
    tiny: str,
    own_postgres_server: PostgresServer,
    read_until: Callable[[subprocess.Popen[str], str], str],
) -> None:
    from tests.postgres import PASSWORD

    server = own_postgres_server
    url = server.new_database()
    location = locate(url)
    begin(location, load_study(tiny), seed=0, budget=2)
    line = (
        *("run", "--study", tiny, "--trials", "2", "--workers", "1", "--verbose"),
        *("--store-patience", "2", "--storage", url),
    )
    process = command.start(*line)
    read_until(process, "trial 0 epoch 1")
    server.stop("immediate")
    out, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert PASSWORD not in location.shown + out + error
    (said,) = [line for line in error.splitlines() if line.startswith("fastrcaps-search: ")]
    assert said == error.splitlines()[-1]
    assert f"{location.shown} must answer" in said
    assert said.endswith("the same line goes on from what was stored last")
    server.start()
    again = command(*line)
    assert "trial 0 continues at epoch" in again.stdout
    check_study(location, "listed", budget=2, epochs=6)
