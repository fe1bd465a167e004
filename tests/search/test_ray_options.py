"""What Ray's launcher options may be, and what they come to."""

from __future__ import annotations

import sys

import pytest

from fastrcaps_search.errors import UsageError
from fastrcaps_search.search.ray_options import RayOptions


@pytest.mark.parametrize(
    ("variables", "asked", "address"),
    [
        ({}, [], "http://127.0.0.1:8265"),
        ({"RAY_ADDRESS": "http://b:1"}, [], "http://b:1"),
        ({"RAY_ADDRESS": "auto", "RAY_API_SERVER_ADDRESS": "https://a/ray"}, [], "https://a/ray"),
        ({"RAY_API_SERVER_ADDRESS": "http://a:1"}, ["http://c:2"], "http://c:2"),
    ],
)
def test_the_cluster_is_the_one_that_was_named_last(
    variables: dict[str, str], asked: list[str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert RayOptions.of({"address": asked} if asked else {}).address == address


def test_what_workers_get() -> None:
    usual = RayOptions.of({})
    assert (usual.cpus, usual.gpus, usual.memory, usual.resources) == (1, 0, None, {})
    assert (usual.setup, usual.python) == ((), sys.executable)
    assert usual.variables == {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}

    told = {
        **{"cpus": ["4"], "gpus": ["0.5"], "memory": ["2G"], "python": ["/usr/bin/python3"]},
        **{"resources": ["a100=1", "a=b=0.25"], "setup": ["module load cuda", "ulimit -n 9"]},
    }
    found = RayOptions.of(told)
    assert (found.cpus, found.gpus, found.memory) == (4, 0.5, 2147483648)
    assert found.resources == {"a100": 1, "a=b": 0.25}
    assert found.setup == ("module load cuda", "ulimit -n 9")
    assert found.python == "/usr/bin/python3"
    # Ray says which cards.
    assert found.variables == {"OMP_NUM_THREADS": "4"}


@pytest.mark.parametrize(
    ("option", "value", "must"),
    [
        ("cpus", "0", "a whole number from 1"),
        ("cpus", "1.5", "a whole number from 1"),
        ("gpus", "-1", "a whole number, or a part of one such as 0.5"),
        ("gpus", "1.5", "a whole number, or a part of one such as 0.5"),
        ("gpus", "nan", "a whole number, or a part of one such as 0.5"),
        ("memory", "4 GB", "as in 8G"),
        ("memory", "0", "as in 8G"),
        ("resources", "a100", "NAME=AMOUNT, such as a100=1"),
        ("resources", "=1", "NAME=AMOUNT, such as a100=1"),
        ("resources", "a100=0", "NAME=AMOUNT, such as a100=1"),
        ("address", "auto", "that of Ray's dashboard, such as http://127.0.0.1:8265"),
        ("address", "127.0.0.1:6379", "that of Ray's dashboard, such as http://127.0.0.1:8265"),
    ],
)
def test_what_an_option_cannot_be_is_refused(option: str, value: str, must: str) -> None:
    with pytest.raises(UsageError) as caught:
        RayOptions.of({option: [value]})
    assert str(caught.value) == (
        f'the launcher option "{option}" of ray must be {must}, got "{value}"; correct it'
    )


def test_what_counts_once_is_given_once() -> None:
    with pytest.raises(UsageError, match='"cpus" of ray must be given once, got "1 and 2"'):
        RayOptions.of({"cpus": ["1", "2"]})
    with pytest.raises(UsageError, match='"setup" of ray must be one line each, got "several"'):
        RayOptions.of({"setup": ["true", "true\nfalse"]})


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="must hold no user or password") as caught:
        RayOptions.of({"address": ["http://me:s3cr3t@127.0.0.1:8265"]})
    assert "s3cr3t" not in str(caught.value)
