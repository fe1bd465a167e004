"""Samplers: each one object, found by its word, known before Optuna is imported.

A plug-in registers its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from fastrcaps_search.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """What proposes assignments.

    Attributes:
        name: Its word in study files.
        implementation: ``module:name`` of what makes an ``optuna.samplers.BaseSampler``: called
            with ``seed``, and with ``feasible``, how many feasible trials there are. Each proposal
            has a new one, which knows parameters, values and constraints of trials alone.
    """

    name: str
    implementation: str

    def build(self, *, seed: int, feasible: int) -> Any:  # noqa: ANN401  # of Optuna
        """A new sampler; imports Optuna."""
        return resolve_name(self.implementation)(seed=seed, feasible=feasible)


SAMPLERS: Registry[Sampler] = Registry("sampler")

TPE = SAMPLERS.register(
    Sampler(name="tpe", implementation="fastrcaps_search.search.suggest:tpe_sampler")
)
SAMPLERS.register(
    Sampler(name="random", implementation="fastrcaps_search.search.suggest:random_sampler")
)
