"""One fixed colour for each allocation, on every page.

A top-level budget has a hue of Okabe and Ito's palette, which people of every colour vision tell apart; the
allocations below it are shades of it. So a chart shows the tree, and colours stay the same as long as the
tree does. Labels say the rest: no chart relies on colour alone.
"""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

HUES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8c7a5b", "#b3a800")
"""Okabe and Ito, but for black (that is ink) and with a yellow that shows on white."""

DARKEST, LIGHTEST = 0.30, 0.72
"""Lightness of the shades of one hue: readable on white and on black."""

POLICIES = (
    "#6655cc", "#44aa99", "#ddaa33", "#cc6677", "#88ccee", "#117733", "#aa4499", "#999933", "#882255",
)  # fmt: skip
"""Of policies side by side, after Tol's muted palette: others than those of allocations."""

IDLE, UNAVAILABLE = "#c9ced6", "#5b616b"
HELD = "#4c78a8"
UNALLOCATED = "#a0cbe8"
EDGE = "#c1121f"
"""Of a bar that a preemption ended."""


def colours(allocations: Sequence[str]) -> dict[str, str]:
    """Return the colour of each allocation of a tree, `#rrggbb`; the same whatever their order."""
    hues = families(allocations)
    out = {}
    for top, hue in hues.items():
        below = sorted({path for path in allocations if path.partition("/")[0] == top})
        out.update({path: _shade(hue, i, len(below)) for i, path in enumerate(below)})
    return out


def families(allocations: Sequence[str]) -> dict[str, str]:
    """Return the hue of each top-level budget."""
    tops = sorted({path.partition("/")[0] for path in allocations})
    return {top: HUES[i % len(HUES)] for i, top in enumerate(tops)}


def _shade(hue: str, place: int, count: int) -> str:
    """Return the shade of a hue at `place` among `count`; the hue itself where it is alone."""
    if count == 1:
        return hue
    red, green, blue = (int(hue[i : i + 2], 16) / 255 for i in (1, 3, 5))
    h, _, saturation = colorsys.rgb_to_hls(red, green, blue)
    lightness = DARKEST + (LIGHTEST - DARKEST) * place / (count - 1)
    mixed = colorsys.hls_to_rgb(h, lightness, saturation * 0.7)
    return "#" + "".join(f"{round(255 * part):02x}" for part in mixed)
