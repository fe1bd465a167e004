"""Whether every choice of a study learns: all its configurations, trained in a short form.

    FASTRCAPS_DATA=data python -m tests.benchmarks.learning short.toml --rows rows.jsonl
    python -m tests.benchmarks.learning short.toml --rows rows.jsonl --table

trains each configuration of a study file (P at both ends of its range) with seed 0 and appends a
line for each to the file of rows; those that are there already are left out, so that it may be
stopped and begun again, and several may share the work (``--part 0/2``). ``--table`` prints what
is there and exits with 1 where a configuration is at guessing level or diverged.

``short.toml`` extends a study, as in ``extends = "mnist"``, ``epochs = 2``, ``boundaries = [1]``,
``train_images = 4000``. With two epochs WarmAdaBatch is the same training as warm restarts with
AdaBatch, so that it has no row of its own.

Trainings that begin alike share their first epochs: what is trained once is taken up again for
each, weights and optimiser bit for bit. On a CPU that gives what each would reach alone.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.definition.load import load_study
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search.configurations import configurations
from fastrcaps_search.training.kernels import Trainer, choose_kernel, make_trainer
from fastrcaps_search.training.policy import TrainingPlan, training_plan
from fastrcaps_search.training.run import first_network
from fastrcaps_search.training.splits import Splits, hits, stage

SEED = 0


@dataclass(frozen=True, slots=True)
class State:
    """A training after some epochs.

    Attributes:
        network: Weights.
        optimiser: Adam's state.
        accuracies: After each epoch.
    """

    network: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    accuracies: tuple[float, ...]


def ends(definition: StudyDefinition) -> list[TrialParameters]:
    """The configurations of a study, of P only the smallest and the largest."""
    found = list(configurations(definition).values())
    exponents = [p.adabatch_exponent for p in found if p.adabatch_exponent is not None]
    kept = {None, *([min(exponents), max(exponents)] if exponents else [])}
    return [parameters for parameters in found if parameters.adabatch_exponent in kept]


class Family:
    """Trainings of one network, by epochs that they share."""

    def __init__(
        self, plan: TrainingPlan, splits: Splits, *, seed: int = SEED, scale: float = 1.0
    ) -> None:
        """The first network, its primary capsules' weights times ``scale``."""
        network = first_network(plan, seed=seed)
        if scale != 1.0:
            assert isinstance(network, CapsNet)
            with torch.no_grad():
                network.primary_capsules.convolution.weight.mul_(scale)
        kernel = choose_kernel(
            torch.device("cpu"),
            network=plan.network,
            precision=plan.precision,
        )
        self._trainer: Trainer = make_trainer(
            network.train(),
            splits.training,
            seed=seed,
            shifts=plan.shifts,
            kernel=kernel,
        )
        self._splits = splits

    def start(self) -> State:
        """The network before its first step."""
        return self._state(())

    def train(
        self, state: State, plans: Mapping[str, TrainingPlan]
    ) -> Iterator[tuple[str, tuple[float, ...]]]:
        """Train all plans on from a state that they share; keys and accuracies as they end."""
        epoch = len(state.accuracies) + 1
        alike: dict[Any, dict[str, TrainingPlan]] = defaultdict(dict)
        for key, plan in plans.items():
            if epoch > plan.epochs:
                yield key, state.accuracies
            else:
                alike[tuple(plan.epoch_batches(epoch)), tuple(plan.epoch_rates(epoch))][key] = plan
        for (sizes, rates), group in alike.items():
            self._trainer.trained.load(state.network, state.optimiser)
            for _ in self._trainer.epoch(epoch, list(sizes), list(rates)):
                pass
            loss = self._trainer.trained.take_sums()[0]
            right = hits(self._trainer.trained, self._splits.evaluation)
            reached = int(right.sum()) / len(right)
            reached = reached if math.isfinite(loss) else math.nan
            yield from self.train(self._state((*state.accuracies, reached)), group)

    def _state(self, accuracies: tuple[float, ...]) -> State:
        self._trainer.trained.copy_to_module()
        module = self._trainer.trained.network
        network = {k: v.clone() for k, v in module.state_dict().items()}
        return State(network, copy.deepcopy(self._trainer.trained.optimiser_state()), accuracies)


def train(definition: StudyDefinition, rows: Path, *, part: tuple[int, int], threads: int) -> None:
    """Train what is missing of a part of the study, and append it to the rows."""
    done = {json.dumps(row["params"]) for row in read(rows, definition.name)}
    families: dict[Any, dict[str, TrainingPlan]] = defaultdict(dict)
    for parameters in ends(definition):
        key = json.dumps(parameters.to_dict())
        plan = training_plan(definition, parameters)
        families[plan.decoder, plan.weight_sharing, plan.reconstruction_weight][key] = plan
    folder = os.environ.get("FASTRCAPS_DATA")
    splits = stage(
        definition, device="cpu", threads=threads, folder=Path(folder) if folder else None
    )
    for index, plans in enumerate(families.values()):
        left = {key: plan for key, plan in plans.items() if key not in done}
        if index % part[1] != part[0] or not left:
            continue
        family = Family(next(iter(left.values())), splits)
        for key, accuracies in family.train(family.start(), left):
            row = {
                "study": definition.name,
                "params": json.loads(key),
                "accuracies": accuracies,
            }
            with rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row, flush=True)


def read(rows: Path, study: str) -> list[dict[str, Any]]:
    """The rows of a study."""
    lines = rows.read_text().splitlines() if rows.exists() else []
    return [row for row in map(json.loads, lines) if row["study"] == study]


def table(definition: StudyDefinition, found: Sequence[Mapping[str, Any]]) -> tuple[str, bool]:
    """Best accuracy by schedules and network in percent; and whether all of them learn."""
    cells: dict[str, dict[str, str]] = defaultdict(dict)
    learns = True
    for row in found:
        params = TrialParameters.from_dict(row["params"])
        exponent = params.adabatch_exponent
        schedules = params.described + ("" if exponent is None else f", P = {exponent}")
        sharing = {None: "", False: ", own", True: ", shared"}[params.weight_sharing]
        accuracies = row["accuracies"]
        diverged = any(math.isnan(accuracy) for accuracy in accuracies)
        best = max(accuracies)
        learns &= not diverged and best >= definition.least_feasible_accuracy
        cell = "diverged" if diverged else f"{100 * best:.2f}"
        cells[schedules][f"{params.decoder or 'network'}{sharing}"] = cell
    columns = sorted({column for of in cells.values() for column in of})
    lines = [f"{'':<36}" + "".join(f"{column:>18}" for column in columns)]
    for schedules, of in cells.items():
        lines.append(f"{schedules:<36}" + "".join(f"{of.get(c, ''):>18}" for c in columns))
    return "\n".join(lines), learns


def main() -> int:
    """Train, or show what was trained."""
    parser = argparse.ArgumentParser()
    parser.add_argument("study", help="name of a shipped study, or a study file")
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--part", default="0/1", help="K/N: every Nth network, from the Kth on")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    definition = load_study(arguments.study)
    if arguments.table:
        text, learns = table(definition, read(arguments.rows, definition.name))
        print(text)
        return 0 if learns else 1
    index, of = map(int, arguments.part.split("/"))
    train(definition, arguments.rows, part=(index, of), threads=arguments.threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
