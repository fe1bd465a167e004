"""What is known of a trained network: ``network.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import torch

from fastrcaps_search.capsnet.routing import ROUTING_ITERATIONS
from fastrcaps_search.data.data_set import CLASSES, IMAGE_SIDE
from fastrcaps_search.definition import checks
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.release import release
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import DefinitionError
from fastrcaps_search.metrics import RunSetting

FORMAT = "fastrcaps-network-4"
WEIGHTS_FILE = "weights.safetensors"
CARD_FILE = "network.json"
ONNX_FILE = "network.onnx"
LONGEST_TEXT = 300
INPUT_SHAPE = (1, IMAGE_SIDE, IMAGE_SIDE)

PREPROCESSING = {
    "image": f"{IMAGE_SIDE}x{IMAGE_SIDE} pixels, one grey channel, light on dark",
    "divide_uint8_by": 255,
    "range": [0.0, 1.0],
    "steps": "uint8 from 0 to 255 divided by 255; nothing else: no normalisation, no padding "
    "(LeNet5 pads to 32x32 itself)",
}
"""What is done to an image before the network sees it."""


def _versions() -> dict[str, str]:
    return {"fastrcaps_search": release(), "torch": torch.__version__}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """Where a trained network comes from and what it is.

    Attributes:
        definition: Its study.
        parameters: Assignment of the trial, decoder and weight sharing among it.
        trial: Number of the trial.
        run: Index of the run within the trial.
        seed: Seed of the run.
        learned_parameters: Their number.
        best_epoch: Epoch whose weights these are.
        accuracy: Of these weights on the split that the study evaluates on.
        test_accuracy: Of these weights on the test set, where it was read.
        training_seconds: Up to the best epoch, as measured where it trained.
        setting: Where and how the run was trained.
        versions: Of the packages that exported it; opset and IR of ``network.onnx``, if any.
    """

    definition: StudyDefinition
    parameters: TrialParameters
    trial: int
    run: int
    seed: int
    learned_parameters: int
    best_epoch: int
    accuracy: float
    test_accuracy: float | None
    training_seconds: float
    setting: RunSetting
    versions: Mapping[str, str] = field(default_factory=_versions)

    @property
    def classes(self) -> tuple[str, ...]:
        """What each class stands for."""
        return self.definition.data_set.class_names

    def to_dict(self) -> dict[str, Any]:
        """JSON values: what the network is, then where it comes from."""
        network = self.definition.network
        params = self.parameters.to_dict()
        has_capsules = self.definition.architecture.has_capsules
        shades = self.definition.data_set.shades
        return {
            "format": FORMAT,
            "architecture": {
                "network": str(network),
                "decoder": params.get("decoder"),
                "weight_sharing": params.get("weight_sharing"),
                "routing_gradient": str(self.definition.routing_gradient),
                "routing_iterations": ROUTING_ITERATIONS if has_capsules else None,
                "input_shape": list(INPUT_SHAPE),
                "classes": CLASSES,
            },
            "preprocessing": PREPROCESSING | {"training_images": shades and shades._asdict()},
            "classes": list(self.classes),
            "study": self.definition.to_dict(),
            "params": params,
            **{key: getattr(self, key) for key in _NUMBERS},
            "setting": asdict(self.setting),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, content: bytes) -> ModelCard:
        """The card that JSON holds; what follows from the rest of it is not read.

        Raises:
            DefinitionError: A value is missing or makes no sense.
        """
        try:
            values = json.loads(content)
        except (ValueError, RecursionError) as error:
            said = checks.shortened(str(error))
            raise DefinitionError(f"must be JSON, got: {said}", key="the content") from error
        values = checks.table(values, "the content")
        study, params, setting, versions = (
            checks.table(values.get(key), key)
            for key in ("study", "params", "setting", "versions")
        )
        return cls(
            # How it was searched for may need plug-ins that the network does not.
            definition=StudyDefinition.from_dict(study | {"objectives": None, "sampler": None}),
            parameters=TrialParameters.from_dict(params, prefix="params."),
            **{key: check(values.get(key), key) for key, check in _NUMBERS.items()},
            setting=_setting(setting),
            versions={_line(name, "versions"): _line(versions[name], name) for name in versions},
        )


_count = checks.whole(0, 2**63 - 1)
_fraction = checks.from_zero(1.0)

_NUMBERS: dict[str, Callable[[Any, str], Any]] = {
    "trial": _count,
    "run": _count,
    "seed": _count,
    "learned_parameters": _count,
    "best_epoch": _count,
    "accuracy": _fraction,
    "test_accuracy": lambda value, key: None if value is None else _fraction(value, key),
    "training_seconds": checks.from_zero(1e12),
}
"""Check of each number of a run."""


def _setting(values: dict[str, Any]) -> RunSetting:
    names = [each.name for each in fields(RunSetting)]
    checks.known_keys(values, names, prefix="setting.")
    found: dict[str, Any] = {
        name: (_count if name == "threads" else _line)(values.get(name), f"setting.{name}")
        for name in names
    }
    return RunSetting(**found)


def _line(value: object, key: str) -> str:
    """A text that is safe to print: one line, no control characters, no halves of characters."""
    text = checks.text(value, key)
    if not text.isprintable() or len(text) > LONGEST_TEXT:
        must = f"be a line of at most {LONGEST_TEXT} printable characters"
        raise checks.wrong(text, checks.shortened(key), must)
    return text
