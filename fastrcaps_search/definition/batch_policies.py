"""Batch-size policies: each one object, found by its word. A plug-in registers its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastrcaps_search.definition.schedules import Course, adabatch_sizes
from fastrcaps_search.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPolicy:
    """How the batch size goes over a training.

    Attributes:
        name: Its word in study files.
        sizes: Batch size of each epoch; those above the training split mean the whole split.
        settings: Parameters that shape it. A plug-in registers those that it brings.
        needs_boundary: Whether they mean something only where a boundary lies within training.
        grows: Whether sizes may differ from epoch to epoch.
        by_default: Whether a space that names no policies offers it.
    """

    name: str
    sizes: Callable[[Course], Sequence[int]]
    settings: tuple[str, ...] = ()
    needs_boundary: bool = False
    grows: bool = True
    by_default: bool = True

    def settings_within(self, boundaries: Sequence[int]) -> tuple[str, ...]:
        """The settings of a training within which these boundaries lie."""
        return self.settings if boundaries or not self.needs_boundary else ()


BATCH_POLICIES: Registry[BatchPolicy] = Registry("batch policy")

BATCH_POLICIES.register(
    BatchPolicy(
        name="constant",
        sizes=lambda course: [course.setting("batch_size")] * course.epochs,
        settings=("batch_size",),
        grows=False,
    )
)


def adabatch(name: str, *, most_boundaries: int | None = None) -> BatchPolicy:
    """AdaBatch (FasTrCaps, algorithm 3), that grows at most so often."""
    return BatchPolicy(
        name=name,
        sizes=lambda course: adabatch_sizes(
            course.epochs,
            boundaries=course.boundaries[:most_boundaries],
            exponent=course.setting("adabatch_exponent"),
        ),
        settings=("adabatch_exponent",),
        needs_boundary=True,
    )


BATCH_POLICIES.register(adabatch("adabatch"))
