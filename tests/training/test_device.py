from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from fastrcaps_search.training.device import (
    Clock,
    device_name,
    devices,
    is_device_fault,
    run_setting,
)

CPU = torch.device("cpu")


def test_a_prepared_process_flushes_denormal_numbers_in_every_thread(tmp_path: Path) -> None:
    # 1e-40 is below float32's smallest normal number, 1.2e-38.
    script = (
        "import torch\n"
        "from fastrcaps_search.training.device import prepare\n"
        "assert prepare('cpu', threads=2) == torch.device('cpu')\n"
        "small = torch.full((1_000_000,), 1e-20)\n"
        "print(torch.get_num_threads(), int(torch.count_nonzero(small * 1e-20)),\n"
        "      torch.backends.cudnn.allow_tf32)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "2 0 False\n"


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("CUDA"), False),
    ],
)
def test_faults_of_the_device_are_told_from_those_of_a_training(
    error: Exception, fault: bool
) -> None:
    assert is_device_fault(error) is fault


WATCHING = """
import signal, sys
from fastrcaps_search.training.device import SuspensionWatch
watch = SuspensionWatch()
signal.signal(signal.SIGCONT, watch.note)
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda *_: None)
print("ready", flush=True)
for _ in sys.stdin:
    print(watch(), watch(), flush=True)
"""


def await_sleep(pid: int) -> None:
    """Wait until all threads of a process wait for something."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        stats = [task.joinpath("stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
        if all(stat.rpartition(")")[2].split()[0] in "ST" for stat in stats):
            return
    raise AssertionError(f"process {pid} never came to rest")


def test_a_suspension_is_told_once_and_a_sigcont_alone_is_none() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WATCHING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

        def asked(*numbers: signal.Signals) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            for number in numbers:
                await_sleep(process.pid)
                process.send_signal(number)
                if number is signal.SIGSTOP:
                    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            process.stdin.write("?\n")
            process.stdin.flush()
            return process.stdout.readline()

        calm, suspended = "False False\n", "True False\n"
        assert asked() == calm
        assert asked(signal.SIGSTOP, signal.SIGCONT) == suspended
        # As Slurm does, to processes that run, in all orders.
        assert asked(signal.SIGCONT, signal.SIGTERM) == calm
        assert asked(*[signal.SIGUSR1, signal.SIGCONT, signal.SIGTERM] * 9) == calm
        assert asked(signal.SIGTERM, signal.SIGSTOP, signal.SIGCONT) == suspended
        assert asked() == calm


def test_a_setting_sets_the_threads_that_it_names() -> None:
    before = torch.get_num_threads()
    try:
        setting = run_setting(CPU, precision="fp32", threads=before + 1, kernel="cpu-2-mkl")
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
    assert (setting.device, setting.threads) == ("cpu", before + 1)
    assert setting.kernel == "cpu-2-mkl"
    assert setting.device_name == device_name("cpu")
    assert setting.torch_version == torch.__version__


def test_the_cpu_is_always_a_device() -> None:
    assert devices()[-1] == "cpu"


def test_a_clock_counts_up() -> None:
    clock = Clock(CPU)
    clock.start()
    first = clock.stop()
    assert 0 <= first <= clock.stop()
