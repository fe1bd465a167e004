"""The commands of docs/containers-and-batch.md and examples/ under a container's conditions."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.containers import Container

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command, ReadUntil
    from tests.postgres import PostgresServer

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
USER = 4711
"""Of no name on any machine."""
ONE = ("--workers", "1", "--threads", "1")
"""Only to be quick."""
SECONDS = 200.0
"""The longest that a container may take: a few, unless the machine is busy."""
SAVED = "interrupted; the state is saved, the same line continues the study\n"


def image_environment() -> dict[str, str]:
    """The variables that the image sets, but for its path."""
    text = (ROOT / "examples/Dockerfile").read_text(encoding="utf-8")
    last = text.rpartition("\nFROM ")[2]
    words = re.search(r"^ENV (.+)$", last, re.MULTILINE)
    assert words is not None
    found = dict(word.split("=", 1) for word in words[1].split())
    del found["PATH"]
    return found


def docker_run() -> tuple[dict[str, list[str]], list[str]]:
    """The options of ``docker run`` in the documents, and what follows the image."""
    text = (ROOT / "docs/containers-and-batch.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^docker run ((?:.+\\\n)*.+)$", text, re.MULTILINE)
    words = shlex.split(line.replace("\\\n", " "))
    image = words.index("fastrcaps-search")
    options: dict[str, list[str]] = {}
    for word in words[:image]:
        if word.startswith("--"):
            options[word] = []
        else:
            options[list(options)[-1]].append(word)
    return options, words[image + 1 :]


def owned_by(folder: Path, user: int) -> None:
    for path in (folder, *folder.iterdir()):
        os.chown(path, user, user)


def test_the_line_for_docker_saves_when_it_is_stopped_and_goes_on(
    command: Command, tmp_path: Path, steady_text: str, read_until: ReadUntil
) -> None:
    options, arguments = docker_run()
    assert options.keys() >= {"--read-only", "--rm", "--user"}
    assert (options["--cap-drop"], options["--security-opt"]) == (["ALL"], ["no-new-privileges"])
    (folder, place) = options["--volume"][0].split(":")
    assert folder == "$PWD"
    owned_by(command.folder, USER)
    (command.folder / "steady.toml").write_text(steady_text)
    container = Container(
        root=tmp_path,
        user=USER,
        name="0123456789ab",
        environment=image_environment(),
        volumes={place: command.folder},
        temporary=tuple(options["--tmpfs"]),
        work="/work",
    )
    renamed = {"mnist-mini": "steady.toml", "12": "2"}
    line = [*(renamed.get(word, word) for word in arguments), "--verbose", *ONE]
    running = container.start(*line)
    read_until(running.process, "epoch 2:")
    code, _, error = running.stop(within=float(options["--stop-timeout"][0]))
    assert (code, error.partition("search: ")[2]) == (130, SAVED)
    assert command.json("status", "--study", "steady")["workers"] == []

    code, out, error = container.start(*line).wait(SECONDS)
    assert (code, error) == (0, "")
    assert re.search(r"trial \d continues at epoch [2-9]", out)
    status = command.json("status", "--study", "steady")
    assert (status["complete"], status["budget"]) == (2, 2)
    assert (command.folder / "reports/steady.html").stat().st_uid == USER


@pytest.fixture(scope="module")
def job() -> dict[str, Any]:
    """The job for Kubernetes."""
    text = (ROOT / "examples/kubernetes.yaml").read_text(encoding="utf-8")
    (found,) = [one for one in yaml.safe_load_all(text) if one["kind"] == "Job"]
    return dict(found)


@pytest.fixture
def pod_of(job: dict[str, Any], tmp_path: Path, shared: Path) -> Callable[..., Container]:
    """Makes the pod of an index, as the job says, with these values of the secret."""
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    kinds = {volume["name"]: volume.keys() - {"name"} for volume in pod["volumes"]}
    places = {one["mountPath"]: kinds[one["name"]] for one in container["volumeMounts"]}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }

    def make(index: int, secret: dict[str, str]) -> Container:
        def value(variable: dict[str, Any]) -> str:
            if "value" in variable:
                return str(variable["value"])
            return secret[variable["valueFrom"]["secretKeyRef"]["key"]]

        (root := tmp_path / f"root-{index}").mkdir(exist_ok=True)
        return Container(
            root=root,
            user=pod["securityContext"]["runAsUser"],
            name=f"{job['metadata']['name']}-{index}",
            environment=image_environment()
            | {variable["name"]: value(variable) for variable in container["env"]},
            volumes={place: shared for place, kind in places.items() if "emptyDir" not in kind},
            temporary=tuple(place for place, kind in places.items() if "emptyDir" in kind),
            work="/work",
        )

    return make


@pytest.fixture
def shared(tmp_path: Path, job: dict[str, Any], steady_text: str) -> Path:
    """The volume of all pods, as ``fsGroup`` has it, with a study of a second."""
    (folder := tmp_path / "shared").mkdir()
    (folder / "mnist.toml").write_text(steady_text)
    os.chown(folder, 0, job["spec"]["template"]["spec"]["securityContext"]["fsGroup"])
    folder.chmod(0o2775)
    return folder


def action(job: dict[str, Any], code: int, *, disrupted: bool) -> str:
    """What the job does about a pod that ended so."""
    for rule in job["spec"]["podFailurePolicy"]["rules"]:
        if disrupted and {"type": "DisruptionTarget", "status": "True"} in rule.get(
            "onPodConditions", ()
        ):
            return str(rule["action"])
        if code in rule.get("onExitCodes", {}).get("values", ()):
            return str(rule["action"])
    return "Count"


def trains_on(server: PostgresServer, url: str, host: str) -> bool:
    """Whether a machine has stored an epoch of a run that it holds."""
    if server.run_sql(url, "select to_regclass('fastrcaps_epochs')") == [(None,)]:
        return False
    found = server.run_sql(
        url,
        "select host from fastrcaps_leases join fastrcaps_epochs using (study_id, number, run)",
    )
    return any(name.startswith(f"{host}/") for (name,) in found)


def test_a_pod_of_kubernetes_that_is_evicted_begins_again_and_ends_with_the_budget(
    job: dict[str, Any],
    pod_of: Callable[..., Container],
    postgres_server: PostgresServer,
    postgres_url: str,
    shared: Path,
    until: Callable[[Callable[[], object]], None],
) -> None:
    pod = job["spec"]["template"]["spec"]
    renamed = {"mnist": "/shared/mnist.toml", "40": "2"}
    line = [renamed.get(word, word) for word in pod["containers"][0]["args"]]
    evicted = pod_of(0, {"storage": postgres_url}).start(*line, *ONE)
    until(lambda: trains_on(postgres_server, postgres_url, "mnist-0"))
    code, _, error = evicted.stop(within=pod["terminationGracePeriodSeconds"])
    assert (code, error.partition("search: ")[2]) == (130, SAVED)
    assert action(job, code, disrupted=True) == action(job, code, disrupted=False) == "Ignore"
    assert (action(job, 2, disrupted=False), action(job, 1, disrupted=False)) == (
        "FailJob",
        "Count",
    )
    again = pod_of(0, {"storage": postgres_url}).start(*line, *ONE)
    code, out, error = again.wait(SECONDS)
    assert (code, error) == (0, "")
    assert postgres_url not in out
    assert (shared / "reports/steady.html").exists()
    ended = "select count(accuracy), sum(deaths) from fastrcaps_runs"
    assert postgres_server.run_sql(postgres_url, ended) == [(2, 0)]
    claimed = "select count(*) from fastrcaps_claims where purpose = 'train'"
    assert postgres_server.run_sql(postgres_url, claimed) == [(3,)]
    logs = "".join(path.read_text() for path in shared.glob("fastrcaps-files/*/trial-*/*.log"))
    assert logs.count("from its checkpoint") == 1
