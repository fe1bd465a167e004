from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fastrcaps_search.search.files import study_folder, used_bytes
from fastrcaps_search.store.location import locate


def test_the_room_of_files_that_may_not_be_seen_is_unknown(tmp_path: Path) -> None:
    location = locate(str(tmp_path / "a.db"))
    study: Any = SimpleNamespace(name="a", uid="0123456789")
    assert used_bytes(location, study) == 0
    run = study_folder(location, study) / "trial-0000" / "run-0"
    run.mkdir(parents=True)
    (run / "weights").write_bytes(bytes(1_000))
    (run.parent / "run-0.log").write_bytes(bytes(10))
    # A link counts for nothing.
    (run / "link").symlink_to("weights")
    assert used_bytes(location, study) == 1_010
    run.chmod(0)
    # Root may see all: its child is another user.
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
        return
    try:
        if os.getuid() == 0:
            os.setuid(54321)
        assert used_bytes(location, study) is None
        os._exit(0)
    finally:
        os._exit(1)
