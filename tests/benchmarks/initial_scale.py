"""How well the full CapsNet learns by the size of its primary capsules' first weights.

    FASTRCAPS_DATA=data python -m tests.benchmarks.initial_scale --rows rows.jsonl \\
        mnist,128,shared,32,0,4000 fashion-mnist,1,own,1,0,2000

Each argument is data set, batch size, weights of the class capsules, times which PyTorch's first
weights are taken (1, or 32 as in the product), seed and training images. Two epochs at the fixed
rate 1e-3 with the full decoder; a row has the accuracies on the validation split after each. What
is there already is left out; ``--table`` prints the rows, seeds side by side.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import defaultdict
from pathlib import Path

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training.policy import training_plan
from fastrcaps_search.training.splits import stage
from tests.benchmarks.learning import Family

TYPES = 32


def accuracies(spec: str, *, threads: int) -> tuple[float, ...]:
    """Train what the words name."""
    data_set, batch, weights, scale, seed, images = spec.split(",")
    listed = {
        "lr_policy": "fixed",
        "batch_policy": "constant",
        "decoder": "full",
        "weight_sharing": {"own": False, "shared": True}[weights],
    }
    definition = StudyDefinition.from_dict(
        {
            "name": "initial-scale",
            "data_set": data_set,
            "epochs": 2,
            "boundaries": [1],
            "batch_size": int(batch),
            "train_images": int(images),
            "configuration": [listed],
        }
    )
    plan = training_plan(definition, definition.configurations[0])
    folder = Path(os.environ["FASTRCAPS_DATA"])
    splits = stage(definition, device="cpu", threads=threads, folder=folder)
    family = Family(plan, splits, seed=int(seed), scale=float(scale) / TYPES)
    ((_, found),) = family.train(family.start(), {"": plan})
    return found


def table(lines: list[str]) -> str:
    """Accuracies in percent after one and two epochs, a line for all seeds of a network."""
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for line in lines:
        row = json.loads(line)
        *words, seed, images = row["spec"].split(",")
        reached = " ".join(f"{100 * accuracy:.1f}" for accuracy in row["accuracies"])
        found[*words, images].append(f"seed {seed}: {reached}")
    return "\n".join(" ".join(words) + "  " + "; ".join(of) for words, of in found.items())


def main() -> None:
    """Train what is missing, or print what is there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("specs", nargs="*")
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    lines = given.rows.read_text().splitlines() if given.rows.exists() else []
    if given.table:
        print(table(lines))
    done = {json.loads(line)["spec"] for line in lines}
    for spec in given.specs:
        if spec not in done:
            row = {"spec": spec, "accuracies": accuracies(spec, threads=given.threads)}
            with given.rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row, flush=True)


if __name__ == "__main__":
    main()
