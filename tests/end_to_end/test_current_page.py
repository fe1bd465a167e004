"""``run`` keeps its page current, and leaves nobody behind who writes it."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from tests.store.workers import until

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command

KEEPER = b"fastrcaps_search.cli.report"


def keepers(folder: Path) -> list[int]:
    """Processes that keep a page in this folder current."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if KEEPER in words and (process / "cwd").resolve() == folder:
                found.append(int(process.name))
        except OSError:
            # It ended meanwhile.
            continue
    return found


def states(page: Path) -> list[str]:
    """States of the trials on the page."""
    return re.findall(r'"state":"(\w+)"', page.read_text().split('id="report-data"')[-1])


def test_the_page_follows_the_run_and_ends_with_it(command: Command) -> None:
    line = ("run", "--study", "listed.toml", "--trials", "3", "--workers", "1")
    page = command.folder / "reports" / "listed.html"
    running = command.start(*line)
    try:
        until(lambda: page.exists() and bool(states(page)))
        assert running.poll() is None
        (keeper,) = keepers(command.folder)
        assert os.getpriority(os.PRIO_PROCESS, keeper) == 19
    finally:
        # Nobody is left to end the other one: the kernel closes its standard input.
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
    until(lambda: keepers(command.folder) == [])

    assert command(*line).stdout.endswith("report: reports/listed.html\n")
    assert states(page) == ["complete"] * 3
    assert '"inProgress":false' in page.read_text()
    assert keepers(command.folder) == []
    assert [path.name for path in page.parent.iterdir()] == ["listed.html"]
