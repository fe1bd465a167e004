"""The log of each run."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fastrcaps_search.errors import DiskError
from fastrcaps_search.store.holders import Claim

LOG = logging.getLogger("fastrcaps_search.trial")


def log_claim(claim: Claim) -> None:
    """Say who goes on with which run."""
    LOG.info(
        "%s claimed by %s (claim %d): %s",
        claim.key,
        claim.worker,
        claim.token,
        json.dumps(claim.parameters.to_dict()),
    )


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Write the log of a run while it is worked on."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise DiskError(
            f"{path.parent} must be a folder that can be written, got: {error.strerror}; mend it, "
            "or name another with --files"
        ) from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    LOG.addHandler(handler)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        # What could not be written before cannot be written now, on a full disk.
        with suppress(OSError):
            handler.close()
