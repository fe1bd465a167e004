"""How long the page of a large study takes to build, how large it is, and when it answers.

    python -m tests.benchmarks.report_page [--trials 1000 10000] [--epochs 100] [--rounds 3]

The study has as many trials as asked for, of which a fiftieth failed, all five policies, and
learning rates of their own, so that no two schedules are the same. It lies in an SQLite file, and
the command ``report`` builds the page in a fresh process: its time includes Python's start and the
reading. Then headless Chromium opens the page; "key answered" is when the first three figures are
drawn and a key has picked a trial. Everything is invented but the shapes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.metrics import EpochMetrics, RunSetting
from fastrcaps_search.store import schema
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.records import TrialState
from fastrcaps_search.store.store import Store

SETTING = asdict(RunSetting("cpu", "CPU", "2", "fp32", 1, "eager"))
START = 1_770_000_000.0
IMAGES = 5_000
FAILED = {
    "failure_kind": "DivergedError",
    "failure_message": "diverged at epoch 3",
    "failure_trace": "Traceback\n" * 20,
    "log_path": "logs/7.log",
}
FLAGS = ["--no-sandbox", "--headless", "--disable-gpu", "--use-angle=swiftshader"]


def definition(trials: int, epochs: int) -> StudyDefinition:
    """A study in which every learning rate is its own."""
    return StudyDefinition.from_dict(
        {
            "name": f"trials-{trials}",
            "epochs": epochs,
            "lr_min": 1e-5,
            "space": {"lr_max": [1e-4, 1e-2]},
        }
    )


def assignment(draw: random.Random) -> dict[str, Any]:
    """Parameters of one trial."""
    policies = ["fixed", "exponential_decay", "one_cycle", "warm_restarts", "warm_adabatch"]
    found: dict[str, Any] = {"lr_policy": draw.choice(policies)}
    if found["lr_policy"] != "warm_adabatch":
        found["batch_policy"] = draw.choice(["constant", "adabatch"])
    if found.get("batch_policy") != "constant":
        found["adabatch_exponent"] = draw.randint(2, 7)
    found["decoder"] = draw.choice(["full", "reduced"])
    found["weight_sharing"] = draw.random() < 0.5
    found["lr_max"] = 10 ** draw.uniform(-4, -2)
    return found


def rows(trials: int, epochs: int) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """A trial's columns and those of its epochs."""
    draw = random.Random(0)
    for number in range(trials):
        began, accuracy = START + 200 * number, round(IMAGES * draw.uniform(0.9, 0.99)) / IMAGES
        seconds, chosen = draw.uniform(100, 1000), assignment(draw)
        failed = number % 50 == 7
        counted = 8_215_728 - 73_728 * (chosen["decoder"] == "reduced")
        values = (accuracy, seconds, counted - 1_433_600 * chosen["weight_sharing"])
        trial = {
            "number": number,
            "assignment": json.dumps(chosen),
            "configuration_key": str(number),
            "state": str(TrialState.FAILED if failed else TrialState.COMPLETE),
            "token": 1,
            **dict.fromkeys(FAILED),
            **dict(
                zip(
                    ("accuracy", "training_seconds", "parameters"),
                    (None,) * 3 if failed else values,
                    strict=True,
                )
            ),
            **(FAILED if failed else {}),
            "created_at": began,
            "finished_at": began + seconds,
        }
        yield (
            trial,
            [
                {
                    "number": number,
                    "run": 0,
                    "token": 1,
                    "worker": f"worker-{number % 4}",
                    **asdict(metrics(epoch, epochs, accuracy, seconds, draw)),
                    **SETTING,
                    "sharing": 1,
                    "stored_at": began + seconds * epoch / epochs,
                }
                for epoch in range(1, epochs + 1)
            ],
        )


def metrics(
    epoch: int, epochs: int, accuracy: float, seconds: float, draw: random.Random
) -> EpochMetrics:
    """An epoch of a curve that climbs to ``accuracy`` in the last one."""
    reached = round(IMAGES * (accuracy - 0.3 * 0.93**epoch * (epoch < epochs))) / IMAGES
    spent = seconds / epochs * draw.uniform(0.99, 1.01)
    return EpochMetrics(
        epoch, 16, 1e-3, 1e-3, 0.5, 0.4, 0.1, reached, reached, spent, 0.1, 3438, 55_000
    )


def store(file: Path, trials: int, epochs: int) -> str:
    """Store the study; its name."""
    asked = definition(trials, epochs)
    location = locate(str(file))
    enter_study(location, asked, seed=0, budget=trials)
    opened = Store.writing(location)
    key = {"study_id": opened.study(asked.name).study_id}
    with opened.engine.begin() as connection:
        for trial, stored in rows(trials, epochs):
            number = {**key, "number": trial["number"]}
            best = None if trial["accuracy"] is None else epochs
            run = {"run": 0, "seed": 0, "token": 1, **SETTING, "bit_equal": 1, "best_epoch": best}
            claim = {"purpose": "train", "worker": stored[0]["worker"], "host": "desk/1"}
            claimed = {"device": "cpu", "claimed_at": trial["created_at"]}
            for table, more in (
                (schema.trials, {}),
                (schema.runs, run),
                (schema.claims, {"run": 0, "token": 1, **claim, **claimed}),
            ):
                values = {**trial, **more, **number}
                known = {name: value for name, value in values.items() if name in table.c}
                connection.execute(table.insert(), known)
            connection.execute(schema.epochs.insert(), [{**key, **epoch} for epoch in stored])
    opened.close()
    return asked.name


def built(folder: Path, name: str) -> float:
    """Seconds of the command."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "fastrcaps_search", "report", "--study", name]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
    return time.perf_counter() - began


def opened(page: Path, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds until the figures are drawn, and until a key has picked a trial."""
    drawn, answers = [], []
    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        for _ in range(rounds):
            context = browser.new_context(viewport={"width": 1400, "height": 1000})
            tab = context.new_page()
            began = time.perf_counter()
            tab.goto(page.as_uri())
            tab.wait_for_selector("html[data-ready]")
            drawn.append(time.perf_counter() - began)
            tab.focus("#projection-time-accuracy")
            tab.keyboard.press("Home")
            tab.wait_for_selector("#card-title .badge.quiet:has-text('picked')")
            answers.append(time.perf_counter() - began)
            context.close()
        browser.close()
    return drawn, answers


def shown(seconds: list[float]) -> str:
    """Median and spread."""
    return f"{statistics.median(seconds):6.2f} ({min(seconds):.2f}-{max(seconds):.2f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"{asked.rounds} rounds; median (least-most) in seconds; {asked.epochs} epochs a trial")
    print("trials    report, whole command    page, MB    figures drawn         key answered")
    for trials in asked.trials:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            study = store(folder / "fastrcaps.db", trials, asked.epochs)
            build = [built(folder, study) for _ in range(asked.rounds)]
            page = folder / "reports" / f"{study}.html"
            drawn, answers = opened(page, asked.rounds)
            size = page.stat().st_size / 1e6
            print(
                f"{trials:6d}    {shown(build):20s}     {size:8.2f}    "
                f"{shown(drawn):20s}  {shown(answers)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
