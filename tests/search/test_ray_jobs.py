"""What Ray's client says where there is no Ray, or none that fits."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from fastrcaps_search.errors import FastrcapsError, LibraryError, RunError, UsageError
from fastrcaps_search.search import ray_jobs
from fastrcaps_search.search.ray_jobs import RAY


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_cluster_that_is_not_there_or_silent_is_one_line(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_jobs, "ANSWER_SECONDS", 0.2)
    # Ray takes these before what it is told.
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://127.0.0.1:2")
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:3")
    for address in ("http://127.0.0.1:1", silent):
        with pytest.raises(
            RunError, match=f"{address} must answer and take jobs, got: "
        ) as caught:
            RAY.open({"address": [address]})
        assert "\n" not in str(caught.value)
    assert os.environ["RAY_API_SERVER_ADDRESS"] == "http://127.0.0.1:2"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"ray_version": "1.8.0"}, "Ray version 1.8.0 is running on the cluster"),
        ({}, "ray_version"),
    ],
)
def test_a_ray_that_is_too_old_or_none_is_one_line(answer: dict[str, str], said: str) -> None:
    class Old(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Old) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(RunError, match=said) as caught:
            RAY.open({"address": [f"http://127.0.0.1:{server.server_port}"]})
        server.shutdown()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, UsageError), (401, UsageError), (403, UsageError), (404, RunError), (500, RunError)],
)
def test_what_ray_refuses_ends_a_run_and_its_troubles_do_not(
    status: int, kind: type[FastrcapsError]
) -> None:
    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_version = self.path == "/api/version"
            body = json.dumps({"ray_version": "2.60.0"} if is_version else "no").encode()
            self.send_response(200 if is_version else status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Refuses) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        cluster = RAY.open({"address": [f"http://127.0.0.1:{server.server_port}"]})
        with pytest.raises(FastrcapsError, match="must answer and take jobs") as caught:
            cluster.jobs("any")
        server.shutdown()
    assert type(caught.value) is kind


def test_where_ray_is_not_installed_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.job_submission", None)
    with pytest.raises(LibraryError, match=r"install fastrcaps-search\[ray\]"):
        RAY.open({})
