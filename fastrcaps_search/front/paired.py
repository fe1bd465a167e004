"""Two networks on the same images: which images only one of them has right.

Images that both have right, or both wrong, say nothing of their difference; of the others each is
as likely to speak for the one as for the other where the networks are equally good (McNemar 1947,
"Note on the sampling error of the difference between correlated proportions or percentages",
Psychometrika 12). The test is exact (binomial, two-sided), which for few such images is cautious.

It speaks of two networks and of other images like these, not of the configurations that trained
them: another seed gives another network. Nor is it corrected for having picked the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Z_95 = 1.959963984540054
"""97.5 % quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Paired:
    """How two networks differ on the same images.

    Attributes:
        images: Number of the images.
        first_only: Images that only the first one has right.
        second_only: Images that only the second one has right.
    """

    images: int
    first_only: int
    second_only: int

    @classmethod
    def of(cls, first: bytes, second: bytes, *, images: int) -> Paired:
        """Compare the packed hits of two networks, a bit for each image in the same order.

        Raises:
            ValueError: They are not of so many images.
        """
        size = -(-images // 8)
        if images < 1 or len(first) != size or len(second) != size:
            raise ValueError(
                f"hits must be {size} bytes for {images} images, got {len(first)} and "
                f"{len(second)}: compare runs of one study"
            )
        a, b = int.from_bytes(first), int.from_bytes(second)
        return cls(images, (a & ~b).bit_count(), (b & ~a).bit_count())

    @property
    def difference(self) -> float:
        """Accuracy of the first less that of the second."""
        return (self.first_only - self.second_only) / self.images

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the difference for paired proportions.

        Wald's after half an image is added to each of the four cells (Agresti and Min 2005,
        "Simple improved confidence intervals for comparing matched proportions", Statistics in
        Medicine 24). It holds 95 % and, where hardly any image differs, up to 99.9 %; of
        500 to 10,000 images it is nowhere wider than Newcombe's score interval (1998).
        """
        images = self.images + 2
        first, second = self.first_only + 0.5, self.second_only + 0.5
        centre = (first - second) / images
        half = Z_95 * math.sqrt(first + second - (first - second) ** 2 / images) / images
        return max(centre - half, -1.0), min(centre + half, 1.0)

    @property
    def p_value(self) -> float:
        """How probable a difference at least so large is where the two are equally good."""
        differing = self.first_only + self.second_only
        term = total = 1
        for count in range(min(self.first_only, self.second_only)):
            term = term * (differing - count) // (count + 1)
            total += term
        # Whole numbers up to here, however many images differ.
        return min(1.0, 2 * total / (1 << differing))
