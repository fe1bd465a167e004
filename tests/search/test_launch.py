from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from fastrcaps_search.errors import InterruptedRunError, RunError
from fastrcaps_search.search import launch
from fastrcaps_search.search.events import Events
from fastrcaps_search.search.launch import (
    LOCAL,
    WorkerSpec,
    own_spec,
    worker_command,
    worker_environment,
)
from fastrcaps_search.search.supervise import (
    RESTARTS,
    Heard,
    Observer,
    Supervisor,
    Views,
    WorkerView,
)
from fastrcaps_search.store.location import locate
from fastrcaps_search.training.resources import WAITING_VARIABLES


def spec(folder: Path, *, device: str = "cpu", threads: int = 1) -> WorkerSpec:
    return WorkerSpec(
        study="s",
        name="worker-0",
        device=device,
        threads=threads,
        location=locate("sqlite:////data/a.db"),
        data_folder=Path("/data"),
        log=folder / "log",
        lease_seconds=30.0,
        store_patience=600.0,
    )


@pytest.mark.parametrize(
    ("visible", "device", "card"),
    [
        (None, "cuda:0", "0"),
        (None, "cuda:3", "3"),
        ("", "cuda:1", "1"),
        ("2,3", "cuda:0", "2"),
        ("2, 3", "cuda:1", "3"),
        ("GPU-8f1e,GPU-77aa", "cuda:1", "GPU-77aa"),
    ],
)
def test_a_worker_sees_its_own_card_alone(
    tmp_path: Path, visible: str | None, device: str, card: str
) -> None:
    base = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert worker_environment(spec(tmp_path, device=device), base)["CUDA_VISIBLE_DEVICES"] == card


def test_a_worker_on_the_cpu_gets_its_threads_store_and_data(tmp_path: Path) -> None:
    found = worker_environment(spec(tmp_path, threads=3), {"PATH": "/bin", "OMP_NUM_THREADS": "9"})
    assert "CUDA_VISIBLE_DEVICES" not in found
    assert (found["OMP_NUM_THREADS"], found["MKL_NUM_THREADS"]) == ("3", "3")
    assert found["FASTRCAPS_STORAGE"] == "sqlite:////data/a.db"
    assert found["FASTRCAPS_FILES"] == "/data/a-files"
    assert found["FASTRCAPS_DATA"] == "/data"
    assert (found["PATH"], found["MALLOC_MMAP_MAX_"]) == ("/bin", "0")


def test_the_users_own_allocator_settings_stand(tmp_path: Path) -> None:
    assert worker_environment(spec(tmp_path), {"MALLOC_MMAP_MAX_": "7"})["MALLOC_MMAP_MAX_"] == "7"


def test_waiting_threads_give_their_core_away(tmp_path: Path) -> None:
    assert worker_environment(spec(tmp_path), {})["OMP_WAIT_POLICY"] == "passive"


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"])
def test_the_users_own_way_to_wait_stands(tmp_path: Path, name: str) -> None:
    found = worker_environment(spec(tmp_path), {name: "7"})
    assert {key: found.get(key) for key in WAITING_VARIABLES} == {
        **dict.fromkeys(WAITING_VARIABLES),
        name: "7",
    }


def test_the_openmp_that_torch_comes_with_takes_its_settings(tmp_path: Path) -> None:
    environment = worker_environment(spec(tmp_path, threads=3), os.environ)
    shown = subprocess.run(
        [sys.executable, "-c", "import torch"],
        env={**environment, "OMP_DISPLAY_ENV": "TRUE"},
        capture_output=True,
        text=True,
        check=True,
    )
    settings = {line.strip().removeprefix("[host] ") for line in shown.stderr.splitlines()}
    if "OMP_WAIT_POLICY" not in os.environ:
        assert "OMP_WAIT_POLICY = 'PASSIVE'" in settings
    assert "OMP_NUM_THREADS = '3'" in settings


@pytest.mark.parametrize(
    ("visible", "device", "known"),
    [
        (None, "cuda:1", "cuda:1"),
        ("", "cuda:1", "cuda:1"),
        ("2,3", "cuda:1", "cuda:3"),
        ("GPU-8f1e, GPU-77aa", "cuda:1", "cuda:GPU-77aa"),
        ("2,3", "cpu", "cpu"),
    ],
)
def test_a_card_has_one_name_for_all_runs_of_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, device: str, known: str
) -> None:
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    started = worker_command(spec(tmp_path, device=device))
    assert json.loads(started[-1])["device"] == known


def test_a_worker_knows_how_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for started in (spec(tmp_path), replace(spec(tmp_path), data_folder=None, device="cuda:1")):
        environment = worker_environment(started, {})
        assert own_spec(worker_command(started)[-1], environment) == started


@pytest.fixture
def worker_script(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The program that is started in the place of a worker: the last line of this list."""
    lines: list[str] = []
    monkeypatch.setattr(launch, "worker_command", lambda spec: [sys.executable, "-c", lines[-1]])
    return lines


def supervise(
    folder: Path, observe: Observer = lambda views, heard: None, *, max_failures: int = 3
) -> None:
    Supervisor(
        [spec(folder)],
        launcher=LOCAL,
        stop=threading.Event(),
        observe=observe,
        max_failures=max_failures,
    ).run()


def end_badly(folder: Path) -> tuple[list[object], str]:
    """The events of a run that ends with an error, and the error."""
    seen: list[object] = []

    def observe(views: Views, heard: Heard | None) -> None:
        if heard is not None:
            seen.append(heard[1])

    with pytest.raises(RunError) as error:
        supervise(folder, observe)
    return seen, str(error.value)


def test_events_are_heard_and_other_lines_passed_over(
    tmp_path: Path, worker_script: list[str]
) -> None:
    worker_script.append("""print('{"event": "one"}\\na remark\\n5\\n{}\\n{"event": "two"}')""")
    events: Events = queue.Queue()
    worker = LOCAL.start(spec(tmp_path), events)
    heard = [events.get(timeout=60) for _ in range(3)]
    assert heard == [
        ("worker-0", {"event": "one"}),
        ("worker-0", {"event": "two"}),
        ("worker-0", None),
    ]
    assert worker.wait(60) == 0
    worker.kill()


def test_the_live_view_has_the_epochs_of_the_trial_at_hand(
    tmp_path: Path, worker_script: list[str]
) -> None:
    said = [
        {"event": "begins", "trial": 4, "policy": "fixed epochs=3", "epochs": 3},
        {"event": "epoch", "epoch": 2, "accuracy": 0.5},
        {"event": "begins", "trial": 1, "run": 2, "policy": "fixed epochs=2", "epochs": 2},
    ]
    worker_script.append("".join(f"print({json.dumps(event)!r})\n" for event in said))
    seen: list[tuple[object, ...]] = []

    def observe(views: Views, heard: Heard | None) -> None:
        view = views["worker-0"]
        if heard is not None:
            seen.append((view.trial, view.policy, view.epoch, view.epochs))

    supervise(tmp_path, observe)
    assert seen == [
        (4, "fixed epochs=3", None, 3),
        (4, "fixed epochs=3", 2, 3),
        (1, "fixed epochs=2", None, 2),
    ]


def test_a_worker_that_keeps_dying_ends_the_run(tmp_path: Path, worker_script: list[str]) -> None:
    worker_script.append("import sys; print('why', file=sys.stderr); sys.exit(9)")
    seen, error = end_badly(tmp_path)
    # Each death is told once; the last one is the error.
    assert seen == [{"event": "died", "reason": "exit code 9"}] * RESTARTS
    assert error == (
        f"worker-0 died {RESTARTS + 1} times without finishing an epoch (exit code 9), "
        f"so the run stops; {tmp_path / 'log'} may say why"
    )
    assert (tmp_path / "log").read_text() == "why\n" * (RESTARTS + 1)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGILL, "SIGILL: this processor may be too old for this build of torch"),
        (signal.SIGKILL, "SIGKILL: maybe for want of memory, of which fewer workers need less"),
        (
            signal.SIGSEGV,
            "SIGSEGV: a fault in torch or another library, or a stack that is too small",
        ),
    ],
)
def test_a_death_by_a_signal_is_named_and_an_empty_log_is_not(
    tmp_path: Path, worker_script: list[str], number: signal.Signals, reason: str
) -> None:
    worker_script.append(f"import os; os.kill(os.getpid(), {int(number)})")
    seen, error = end_badly(tmp_path)
    assert seen == [{"event": "died", "reason": reason}] * RESTARTS
    assert error == (
        f"worker-0 died {RESTARTS + 1} times without finishing an epoch ({reason}), "
        "so the run stops"
    )


def test_workers_that_others_have_stopped_are_no_failure(
    tmp_path: Path, worker_script: list[str]
) -> None:
    worker_script.append("raise SystemExit(130)")
    with pytest.raises(InterruptedRunError, match=r"^interrupted; the state is saved"):
        supervise(tmp_path)


def test_what_a_worker_says_is_wrong_ends_the_run_with_its_words(
    tmp_path: Path, worker_script: list[str]
) -> None:
    said = '{"event": "error", "message": "no data", "exit_code": 2}'
    worker_script.append(f"print('{said}'); raise SystemExit(2)")
    with pytest.raises(RunError, match=r"^no data$") as error:
        supervise(tmp_path)
    assert error.value.exit_code == 2


def test_failures_in_a_row_end_the_run_but_a_success_between_them_does_not(
    tmp_path: Path, worker_script: list[str]
) -> None:
    failed = """print('{"event": "failed", "trial": %d, "reason": "r%d"}', flush=True)\n"""
    complete = """print('{"event": "complete", "trial": 9}', flush=True)\n"""
    seen: list[str] = []

    def observe(views: Views, heard: Heard | None) -> None:
        if heard is not None:
            seen.append(str(heard[1]["event"]))

    worker_script.append(failed % (0, 0) + failed % (1, 1) + complete + failed % (2, 2))
    supervise(tmp_path, observe)
    assert seen == ["failed", "failed", "complete", "failed"]

    repeat = """print('{"event": "failed", "trial": 4, "run": 2, "reason": "r"}')\n"""
    worker_script.append(failed % (0, 0) + repeat * 2 + "import sys; sys.stdout.flush(); input()")
    with pytest.raises(
        RunError,
        match=r"r0; trial 4 run 2: r; trial 4 run 2: r; --max-failures ",
    ):
        supervise(tmp_path, observe)

    worker_script.append("".join(failed % (n, n) for n in range(3)) + "input()")
    with pytest.raises(RunError) as error:
        supervise(tmp_path, observe)
    assert str(error.value) == (
        "3 trials failed in a row, so the run stops: trial 0: r0; trial 1: r1; trial 2: r2; "
        "--max-failures allows more"
    )


def test_divergence_is_no_failure_in_a_row_and_the_number_can_be_chosen(
    tmp_path: Path, worker_script: list[str]
) -> None:
    failed = """print('{"event": "failed", "trial": %d, "reason": "r", "diverged": %s}')\n"""
    wait = "import sys; sys.stdout.flush(); input()"

    worker_script.append("".join(failed % (n, "true") for n in range(9)))
    supervise(tmp_path)
    # It neither counts nor ends a row.
    others = "".join(
        failed % (n, word) for n, word in enumerate(("false", "true", "false", "true", "false"))
    )
    worker_script.append(others + wait)
    with pytest.raises(RunError, match=r"^3 trials failed in a row, so the run stops: trial 0"):
        supervise(tmp_path)
    worker_script.append(others)
    supervise(tmp_path, max_failures=4)
    worker_script.append(failed % (7, "false") + wait)
    with pytest.raises(RunError, match=r"^a trial failed, so the run stops: trial 7: r;"):
        supervise(tmp_path, max_failures=1)


def test_a_worker_that_tests_still_does_when_the_database_is_back(tmp_path: Path) -> None:
    supervisor = Supervisor(
        [],
        launcher=LOCAL,
        stop=threading.Event(),
        observe=lambda views, heard: None,
        max_failures=3,
    )
    views = supervisor._views
    views["w"] = WorkerView("w")
    supervisor._note("w", {"event": "testing", "trial": 3})
    for kind in ("store_out", "store_back"):
        supervisor._note("w", {"event": kind, "reason": "away"})
        assert (views["w"].doing, views["w"].store_is_out) == ("tests", kind == "store_out")
