"""Sixty-four workers on one PostgreSQL: real but for their training and what they propose."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import STORAGE_VARIABLE, locate
from tests.crowd import Tally, faults_of, study_of

if TYPE_CHECKING:
    from tests.postgres import PostgresServer

WORKERS = 64
BUDGET = 80
SIZES = 25
"""Batch sizes of the space: some 105 configurations, so that towards the end many propose one."""
LIMIT_SECONDS = 280.0
CROWD = "import sys; sys.path.append(sys.argv.pop()); from tests.crowd import main; main()"


def test_they_end_with_the_exact_budget_on_the_connections_that_the_document_asks_for(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    url = postgres_server.limited(postgres_url, WORKERS + 2)
    enter_study(locate(url), study_of(SIZES), seed=None, budget=BUDGET)
    done = subprocess.run(
        # Behind the package: as it is installed, that is what is tested.
        [sys.executable, "-c", CROWD, str(WORKERS), str(Path(__file__).parents[2])],
        env={**os.environ, STORAGE_VARIABLE: url},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    tallies = [Tally(**tally) for tally in json.loads(done.stdout)]
    assert faults_of(url, tallies, budget=BUDGET) == []
    assert len(tallies) == WORKERS
    assert sum(tally.words["done"] for tally in tallies) == WORKERS
