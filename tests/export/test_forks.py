"""Children that are forked after their parent has multiplied: gunicorn's, multiprocessing's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Forks as gunicorn and multiprocessing do, with more than one thread. A child that hangs is ended
# by its own alarm.
FORKING = """
import multiprocessing, os, signal, sys, threading
import numpy as np
import torch
import fastrcaps_search
from fastrcaps_search.data.shipped import MNIST_MINI

network = fastrcaps_search.load_network(sys.argv[1])
images = MNIST_MINI.load(folder=None).test_images[:100]


study = fastrcaps_search.StudyDefinition.from_dict(
    {
        "name": "rates",
        "network": "capsnet-narrow",
        "data_set": "mnist-mini",
        "batch_size": 4,
        "space": {"decoder": ["none"]},
    }
)


def rates():
    return fastrcaps_search.find_rates(study, device="cpu", steps=20).curve.losses


what = {"rates": rates}.get(sys.argv[2]) or (lambda: getattr(network, sys.argv[2])(images))
if sys.argv[2] != "rates":
    torch.set_num_threads(2)
expected = what()
threads = torch.get_num_threads()


def child():
    signal.alarm(30)
    assert np.array_equal(what(), expected)
    assert torch.get_num_threads() == threads


def fork():
    pid = os.fork()
    if pid == 0:
        child()
        os._exit(0)
    return os.waitpid(pid, 0)[1]


if sys.argv[2] != "rates":
    print("forked", fork(), flush=True)
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
print("multiprocessing", process.exitcode, flush=True)
# The parent goes on, and so do the children of its next threads.
assert np.array_equal(what(), expected)
if sys.argv[2] == "predict":
    thread = threading.Thread(target=lambda: print("thread", fork(), flush=True))
    thread.start()
    thread.join()
"""


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("small-lenet", "predict"),
        ("small-capsnet", "reconstruct"),
        # Trains, in the process that asks.
        pytest.param("small-lenet", "rates", marks=pytest.mark.slow),
    ],
)
def test_a_child_finds_what_its_parent_found(
    exports: dict[str, Path], name: str, method: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, str(exports[name]), method],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert all(line.split()[1] == "0" for line in done.stdout.splitlines()), done.stdout
    counts = {"rates": 1, "predict": 3}
    assert len(done.stdout.splitlines()) == counts.get(method, 2)
