"""A made-up research program: the budget tree, shares and standings of the seeded instances."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Family = dict[str, Any]

PROGRAM: Family = {
    "language": (
        50,
        {
            "pretraining": (60, {"base": (75, {}), "long-context": (25, {})}),
            "posttraining": (25, {"instruct": (50, {}), "reasoning": (50, {})}),
            "evaluation": (5, {}),
            "data": (10, {}),
        },
    ),
    "vision": (20, {"multimodal": (60, {}), "video": (40, {})}),
    "robotics": (10, {"manipulation": (60, {}), "simulation": (40, {})}),
    "science": (14, {"climate": (40, {}), "chemistry": (30, {}), "biology": (30, {})}),
    "platform": (6, {"efficiency": (50, {}), "infrastructure": (50, {})}),
}
"""Weight and children by name."""

LIMITED = "platform"
"""The one family with a limit."""


def limit_gpus(cluster_gpus: int) -> int:
    """GPUs that the limited family may hold at once."""
    return max(16, cluster_gpus // 16)


def budgets(cluster_gpus: int, family: Family = PROGRAM) -> list[dict[str, Any]]:
    """Return the tree in the form of a site file."""
    out = []
    for name, (weight, children) in family.items():
        entry: dict[str, Any] = {"name": name, "weight": weight}
        if name == LIMITED:
            entry["limit"] = limit_gpus(cluster_gpus)
        if children:
            entry["children"] = budgets(cluster_gpus, children)
        out.append(entry)
    return out


def _shares(family: Family, path: str, share: float) -> dict[str, float]:
    """Return the share of every allocation below `path`."""
    total = sum(weight for weight, _ in family.values())
    out: dict[str, float] = {}
    for name, (weight, children) in family.items():
        part = share * weight / total
        below = _shares(children, f"{path}{name}/", part) if children else {path + name: part}
        out.update(below)
    return out


ALLOCATIONS = tuple(_shares(PROGRAM, "", 1.0))
"""Paths of the leaves."""

SHARE: Floats = np.array(list(_shares(PROGRAM, "", 1.0).values()))
"""Share of each allocation, float64[15]."""

IS_LIMITED = np.array([path.startswith(f"{LIMITED}/") for path in ALLOCATIONS])
"""Whether each allocation stands under the limit, bool[15]."""


def draw_ratios(rng: np.random.Generator, mean: float) -> Floats:
    """Draw ratios of use to share over 0.3 to 1.6, with this mean weighted by share, float64[15]."""
    even = rng.permutation(np.linspace(0.0, 1.0, len(SHARE)))
    low, high = 0.01, 100.0  # the exponent that bends an even spread to the mean
    for _ in range(60):
        bend = np.sqrt(low * high)
        ratio: Floats = 0.3 + 1.3 * even**bend
        low, high = (bend, high) if ratio @ SHARE > mean else (low, bend)
    return ratio
