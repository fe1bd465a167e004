"""What ``--launcher-option`` tells the Slurm engine: a worker's share, its limits, its set-up."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastrcaps_search.search.job_options import COMMON, JobOptions

SIGNAL_SECONDS = 120
"""Before its end, when a worker is asked to save, unless its limit of time is short."""
CLUSTERS = ("slurm", "local")
WORDS = ("partition", "account", "qos", "constraint", "exclude", "reservation")
SHARES = (*WORDS, "time", "gpus", "cpus", "memory")
OPTIONS = (*SHARES, *COMMON, "signal-seconds", "cluster")
WORD = re.compile(r"[^\s'\"\\]{1,200}")
CLOCK = re.compile(r"(?:(\d{1,3})-)?(\d{1,4}):([0-5]?\d):([0-5]?\d)")


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    """What each worker's job asks for.

    Attributes:
        words: Values that Slurm itself reads, by submitit's names.
        seconds: Limit of time, if one was named.
        signal_seconds: Before it, when the worker is asked to save.
        gpus: Cards of each worker.
        setup: Lines of bash before it starts.
        python: Python program on the nodes.
        is_local: Whether jobs are processes of this machine.
        share: What a worker gets, in words; empty where nothing was asked for.
    """

    words: Mapping[str, str]
    seconds: int | None
    signal_seconds: int
    gpus: str
    setup: tuple[str, ...]
    python: str
    is_local: bool
    share: str

    @classmethod
    def of(cls, options: Mapping[str, Sequence[str]]) -> SlurmOptions:
        """What options ask for.

        Raises:
            UsageError: One cannot be.
        """
        given = JobOptions("slurm", options)
        words = {name: given.matching(name, WORD, "one word") for name in WORDS}
        words["cpus_per_task"] = given.matching("cpus", r"[1-9]\d{0,4}", "a whole number from 1")
        words["mem"] = given.matching("memory", r"[1-9]\d{0,8}[KMGT]?", "as in 8G")
        gpus = given.matching("gpus", r"([\w.-]+:)?\d{1,3}", "a whole number, or as in a100:1")
        seconds = _seconds(given)
        usual = min(SIGNAL_SECONDS, (seconds or math.inf) // 3)
        # Slurm's own limit.
        most = r"0|[1-9]\d{0,4}"
        signal = given.matching("signal-seconds", most, "seconds, as in 120") or f"{usual:.0f}"
        if seconds is not None and int(signal) >= seconds:
            raise given.refused("signal-seconds", f"less than the {seconds} s of time", signal)
        cluster = given.matching("cluster", "|".join(CLUSTERS), " or ".join(CLUSTERS))
        return cls(
            words={name: word for name, word in words.items() if word},
            seconds=seconds,
            signal_seconds=int(signal),
            gpus="" if gpus == "0" else gpus,
            setup=given.setup,
            python=given.python,
            is_local=cluster == "local",
            share=given.words(SHARES),
        )

    def sbatch(self, name: str, log: Path) -> dict[str, Any]:
        """Parameters of a job, by submitit's names.

        Args:
            name: Of the job.
            log: For what it prints.
        """
        words = dict(self.words)
        # Of which submitit knows nothing.
        further = {name: words.pop(name) for name in ("reservation",) if name in words}
        minutes = None if self.seconds is None else math.ceil(self.seconds / 60)
        return {
            **words,
            "job_name": name,
            # Submitit would ask for five minutes, and for accounting under a key of its own.
            "time": minutes,
            "wckey": None,
            "gpus_per_node": self.gpus or None,
            "setup": ["set -e", *self.setup],
            "use_srun": False,
            "stderr_to_stdout": True,
            "additional_parameters": {
                # To the shell, in whose place the worker is by then: without B it reaches only
                # what was started by srun.
                "signal": f"B:TERM@{self.signal_seconds}",
                "no-requeue": True,
                "output": str(log).replace("%", "%%"),
                **further,
            },
        }


def _seconds(given: JobOptions) -> int | None:
    """The limit of time, if one was named.

    Raises:
        UsageError: It is none.
    """
    text = given.one("time")
    if not text:
        return None
    if re.fullmatch(r"[1-9]\d{0,6}", text):
        return 60 * int(text)
    found = CLOCK.fullmatch(text)
    days, hours, minutes, seconds = (
        (int(part or 0) for part in found.groups()) if found else [0] * 4
    )
    total = ((24 * days + hours) * 60 + minutes) * 60 + seconds
    if not total:
        raise given.refused("time", "minutes, or [DAYS-]HH:MM:SS", text)
    return total
