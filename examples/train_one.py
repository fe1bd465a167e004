"""Train one configuration of a study, without a database and without worker processes.

python examples/train_one.py mnist-mini        a study file works as well as a name
"""

import sys

from fastrcaps_search import load_study
from fastrcaps_search.training.kernels import choose_kernel
from fastrcaps_search.training.policy import training_plan
from fastrcaps_search.training.resources import granted_cores
from fastrcaps_search.training.run import Hooks, Run
from fastrcaps_search.training.splits import stage

study = load_study(sys.argv[1] if len(sys.argv) > 1 else "mnist-mini")
assignment = next(study.assignments())  # the first configuration of the space or of the list
print(assignment.to_dict())

splits = stage(study, device="cpu", threads=granted_cores().amount, folder=None)
plan = training_plan(study, assignment)
device = splits.training.labels.device
kernel = choose_kernel(device, network=plan.network, precision=plan.precision)
hooks = Hooks(on_epoch=lambda epoch: print(f"epoch {epoch.epoch}: {epoch.accuracy:.2%}"))
result = Run(plan, seed=0, splits=splits, kernel=kernel, hooks=hooks).train()

seconds, parameters = result.training_seconds, result.parameters
print(f"accuracy {result.accuracy:.2%}, {seconds:.1f} s, {parameters:,} parameters")
