from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fastrcaps_search.training.device import (
    Clock,
    SuspensionWatch,
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


def test_a_suspension_is_told_once() -> None:
    watch = SuspensionWatch()
    assert not watch()
    watch.note(signal.SIGCONT, None)
    assert watch()
    assert not watch()


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
