"""What is known of an exported network: ``network.json``, with a checksum of its own."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NoReturn

from fastrcaps_search.capsnet.routing import ROUTING_ITERATIONS
from fastrcaps_search.definition import checks
from fastrcaps_search.definition.choices import (
    DataSet,
    EvaluateOn,
    Precision,
    RoutingGradient,
)
from fastrcaps_search.definition.data_facts import CLASS_NAMES, CLASSES, IMAGE_SIDE
from fastrcaps_search.definition.keys import STUDY_CHECKS
from fastrcaps_search.definition.networks import NETWORKS, Network
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.errors import DefinitionError, ExportedNetworkError
from fastrcaps_search.metrics import RunSetting

FORMAT = "fastrcaps-network-2"
CHECKSUM = "sha256"
WEIGHTS_FILE = "weights.safetensors"
RECORD_FILE = "network.json"
ONNX_FILE = "network.onnx"
LARGEST_NUMBER = 2**63 - 1
LONGEST_TEXT = 300
KERNEL_NAME = re.compile(r"[a-z]+-\d+-[a-z0-9]+")
INPUT_SHAPE = (1, IMAGE_SIDE, IMAGE_SIDE)

PREPROCESSING = {
    "image": f"{IMAGE_SIDE}x{IMAGE_SIDE} pixels, one grey channel, light on dark",
    "size": [IMAGE_SIDE, IMAGE_SIDE],
    "channels": 1,
    "background": 0,
    "divide_uint8_by": 255,
    "range": [0.0, 1.0],
    "mean": 0.0,
    "standard_deviation": 1.0,
    "steps": "uint8 from 0 to 255 divided by 255; nothing else: no normalisation, no padding "
    "(LeNet5 pads to 32x32 itself)",
}
"""What is done to an image before the network sees it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRecord:
    """Where an exported network comes from and what it is.

    Attributes:
        study: Name of its study.
        data_set: Data set that it was trained on.
        evaluate_on: Split that gave the accuracy.
        trial: Number of the trial.
        run: Index of the run within the trial.
        seed: Seed of the run.
        network: Which network.
        routing_gradient: Through which routing iterations the gradient flowed.
        params: Assignment of the trial, decoder and weight sharing among it.
        learned_parameters: Their number.
        best_epoch: Epoch whose weights these are.
        accuracy: Of these weights on that split.
        test_accuracy: Of these weights on the test set, where it was read.
        training_seconds: Up to the best epoch.
        setting: Where and how the run was trained.
        versions: Of the packages that trained and exported it.
        files: SHA-256 of each file beside the record.
    """

    study: str
    data_set: DataSet
    evaluate_on: EvaluateOn
    trial: int
    run: int
    seed: int
    network: str
    routing_gradient: RoutingGradient
    params: TrialParameters
    learned_parameters: int
    best_epoch: int
    accuracy: float
    test_accuracy: float | None
    training_seconds: float
    setting: RunSetting
    versions: Mapping[str, str]
    files: Mapping[str, str]

    @property
    def classes(self) -> tuple[str, ...]:
        """What each class stands for."""
        return CLASS_NAMES[self.data_set]

    @property
    def architecture(self) -> Network:
        """What is known of the network."""
        return NETWORKS[self.network]

    @property
    def precision(self) -> Precision:
        """Arithmetic of the training."""
        return Precision(self.setting.precision)

    def stored_accuracy(self, data_set: DataSet, split: EvaluateOn) -> float | None:
        """The accuracy that was stored for a split, if there is one."""
        if data_set is not self.data_set:
            return None
        return self.accuracy if split is self.evaluate_on else self.test_accuracy

    def to_dict(self) -> dict[str, Any]:
        """JSON values, the checksum of all the others last."""
        params = self.params.to_dict()
        found = {
            "format": FORMAT,
            "architecture": {
                "network": str(self.network),
                "decoder": params.get("decoder"),
                "weight_sharing": params.get("weight_sharing"),
                "routing_gradient": str(self.routing_gradient),
                "routing_iterations": ROUTING_ITERATIONS
                if self.architecture.has_capsules
                else None,
                "learned_parameters": self.learned_parameters,
                "input_shape": list(INPUT_SHAPE),
                "classes": CLASSES,
            },
            "preprocessing": PREPROCESSING,
            "classes": list(self.classes),
            "study": self.study,
            "data_set": str(self.data_set),
            "evaluate_on": str(self.evaluate_on),
            "trial": self.trial,
            "run": self.run,
            "seed": self.seed,
            "params": params,
            "best_epoch": self.best_epoch,
            "accuracy": self.accuracy,
            "test_accuracy": self.test_accuracy,
            "training_seconds": self.training_seconds,
            "versions": dict(self.versions),
            "setting": asdict(self.setting),
            "files": dict(self.files),
        }
        return {**found, CHECKSUM: checksum(found)}

    @classmethod
    def from_json(cls, content: bytes) -> NetworkRecord:
        """The record that JSON holds, checked in every part.

        Raises:
            ExportedNetworkError: It is no record, or was changed since it was written.
        """
        values = _object(content)
        form = values.get("format")
        if form != FORMAT:
            raise ExportedNetworkError(
                f"format must be {FORMAT}, got {checks.shown(form)}; the release of "
                "fastrcaps-search that wrote it reads it"
            )
        claimed = values.pop(CHECKSUM, None)
        if claimed != checksum(values):
            raise ExportedNetworkError(
                "the content must have the checksum that it was written with, but it was changed; "
                "export the network again"
            )
        try:
            record = _record(values)
        except DefinitionError as error:
            raise ExportedNetworkError(str(error)) from error
        if record.to_dict() != {**values, CHECKSUM: claimed}:
            raise ExportedNetworkError(
                "the content must be what this release writes, but parts of it do not belong "
                "together; export the network again"
            )
        return record


def checksum(values: Mapping[str, Any]) -> str:
    """SHA-256 of the values as JSON in one agreed form."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _object(content: bytes) -> dict[str, Any]:
    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is no JSON")

    try:
        values = json.loads(content, parse_constant=refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ExportedNetworkError(
            f"the content must be JSON, got: {checks.shortened(str(error))}"
        ) from error
    if not isinstance(values, dict):
        raise ExportedNetworkError(
            f"the content must be a JSON object, got {checks.shown(values)}"
        )
    return values


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large a number")
    return value


def _record(values: Mapping[str, Any]) -> NetworkRecord:
    architecture = _table(values, "architecture")
    return NetworkRecord(
        study=STUDY_CHECKS["name"](values.get("study"), "study"),
        data_set=checks.choice(values.get("data_set"), "data_set", DataSet),
        evaluate_on=checks.choice(values.get("evaluate_on"), "evaluate_on", EvaluateOn),
        trial=_count(values, "trial"),
        run=_count(values, "run"),
        seed=_count(values, "seed"),
        network=checks.word(architecture.get("network"), "architecture.network", NETWORKS),
        routing_gradient=checks.choice(
            architecture.get("routing_gradient"), "architecture.routing_gradient", RoutingGradient
        ),
        params=TrialParameters.from_dict(_table(values, "params"), prefix="params."),
        learned_parameters=_count(architecture, "learned_parameters"),
        best_epoch=_count(values, "best_epoch"),
        accuracy=_number(values, "accuracy", high=1.0),
        test_accuracy=(
            None
            if values.get("test_accuracy") is None
            else _number(values, "test_accuracy", high=1.0)
        ),
        training_seconds=_number(values, "training_seconds", high=float(LARGEST_NUMBER)),
        setting=_setting(_table(values, "setting")),
        versions=_texts(values, "versions"),
        files=_texts(values, "files"),
    )


def _setting(values: Mapping[str, Any]) -> RunSetting:
    names = [field.name for field in fields(RunSetting)]
    checks.known_keys(dict(values), names, prefix="setting.")
    texts = {
        name: _printable(values.get(name), f"setting.{name}")
        for name in names
        if name != "threads"
    }
    checks.choice(texts["precision"], "setting.precision", Precision)
    if not KERNEL_NAME.fullmatch(texts["kernel"]):
        raise DefinitionError(
            f"must be the name of a kernel, got {checks.shown(texts['kernel'])}",
            key="setting.kernel",
        )
    return RunSetting(**texts, threads=_count(values, "threads"))


def _table(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = values.get(key)
    if not isinstance(found, dict):
        raise DefinitionError(f"must be an object, got {checks.shown(found)}", key=key)
    return found


def _texts(values: Mapping[str, Any], key: str) -> dict[str, str]:
    return {
        _printable(name, key): _printable(value, f"{key}.{checks.shortened(name)}")
        for name, value in _table(values, key).items()
    }


def _printable(value: object, key: str) -> str:
    """A text of one line that is safe to print: no control characters, no halves of characters."""
    text = checks.text(value, key)
    if not text.isprintable() or len(text) > LONGEST_TEXT:
        raise DefinitionError(
            f"must be a line of at most {LONGEST_TEXT} printable characters, "
            f"got {checks.shown(text)}",
            key=key,
        )
    return text


def _count(values: Mapping[str, Any], key: str) -> int:
    return checks.integer(values.get(key), key, low=0, high=LARGEST_NUMBER)


def _number(values: Mapping[str, Any], key: str, *, high: float) -> float:
    # The next number below 0, so that 0 itself is allowed.
    return checks.number(values.get(key), key, above=-5e-324, high=high)
