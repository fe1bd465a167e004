"""What ``--launcher-option`` tells the Ray engine: which cluster, and a worker's share of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastrcaps_search.errors import UsageError
from fastrcaps_search.search.job_options import COMMON, JobOptions

DEFAULT_ADDRESS = "http://127.0.0.1:8265"
API_VARIABLE = "RAY_API_SERVER_ADDRESS"
"""Ray's client takes its address before any other that it is told."""
ADDRESS_VARIABLES = (API_VARIABLE, "RAY_ADDRESS")
MORE = ("gpus", "memory", "resources")
"""What a worker may get beside cores."""
OPTIONS = ("address", "cpus", *MORE, *COMMON)
BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, slots=True)
class RayOptions:
    """Where and how workers are to run.

    Attributes:
        address: Of Ray's dashboard, which serves its Jobs API.
        cpus: Cores of each worker. Ray counts them but holds nobody to them: the worker is told.
        gpus: Cards of each worker, or a part of one.
        memory: Bytes of each worker, or ``None`` where they are not counted.
        resources: Amounts of what the cluster's owner has named.
        setup: Lines of bash before a worker starts.
        python: Python program on the nodes.
        share: What a worker gets, in words.
    """

    address: str
    cpus: int
    gpus: float
    memory: int | None
    resources: Mapping[str, float]
    setup: tuple[str, ...]
    python: str
    share: str

    @classmethod
    def of(cls, options: Mapping[str, Sequence[str]]) -> RayOptions:
        """What options ask for.

        Raises:
            UsageError: One cannot be.
        """
        given = JobOptions("ray", options, repeatable=("resources",))
        cpus = given.matching("cpus", r"[1-9]\d{0,4}", "a whole number from 1")
        return cls(
            address=_address(given),
            cpus=int(cpus or 1),
            gpus=_cards(given),
            memory=_bytes(given),
            resources=dict(_resource(given, text) for text in given.all("resources")),
            setup=given.setup,
            python=given.python,
            share=", ".join(filter(None, [f"cpus={cpus or 1}", given.words(MORE)])),
        )

    @property
    def variables(self) -> dict[str, str]:
        """What tells a worker its share."""
        # Ray chooses the cards, but lets a command see all where it was to have none.
        hidden = {} if self.gpus else {"CUDA_VISIBLE_DEVICES": ""}
        return {"OMP_NUM_THREADS": str(self.cpus), **hidden}


def _address(given: JobOptions) -> str:
    named = (given.one("address"), *map(os.environ.get, ADDRESS_VARIABLES))
    address = next(filter(None, named), DEFAULT_ADDRESS)
    if "@" in address:
        raise UsageError(
            "the address of Ray's dashboard must hold no user or password, got one with @; "
            "a token comes from RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
        )
    if not re.fullmatch(r"https?://[^/\s]+(/\S*)?", address):
        what = f"that of Ray's dashboard, such as {DEFAULT_ADDRESS}"
        raise given.refused("address", what, address)
    return address


def _amount(text: str) -> float | None:
    """A number that is written without an exponent or a sign."""
    return float(text) if re.fullmatch(r"\d{1,6}(\.\d{1,4})?", text) else None


def _cards(given: JobOptions) -> float:
    text = given.one("gpus") or "0"
    amount = _amount(text)
    if amount is None or (amount > 1 and amount % 1):
        raise given.refused("gpus", "a whole number, or a part of one such as 0.5", text)
    return amount


def _bytes(given: JobOptions) -> int | None:
    text = given.matching("memory", r"[1-9]\d{0,11}[KMGT]?", "as in 8G")
    if not text:
        return None
    unit = text.lstrip("0123456789")
    return int(text.removesuffix(unit)) * BYTES[unit]


def _resource(given: JobOptions, text: str) -> tuple[str, float]:
    name, _, told = text.rpartition("=")
    amount = _amount(told)
    if not name or not amount:
        raise given.refused("resources", "NAME=AMOUNT, such as a100=1", text)
    return name, amount
