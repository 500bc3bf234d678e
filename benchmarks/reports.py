"""How long reports take to build and to open: `python -m benchmarks.reports SIMULATION [--compare FOLDER]`.

Each report is built by the command in a process of its own. It is opened from disk by Debian's Chromium
without a window; *opens* is until the first drawing stands, *whole* until every chart has been drawn by
scrolling to the end; *again* is a second opening, when the browser knows the scripts. Needs `chromium`,
`chromium-driver`, and selenium.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.planner.reports.browsing import Browser

KINDS = ("allocations", "fragmentation", "timeline")
ZOOMS = 6


def built(kind: str, source: Path, out: Path) -> tuple[float, float]:
    """Build a report; return wall and processor seconds."""
    began, before = time.perf_counter(), os.times()
    call = [sys.executable, "-c", "from planner.cli import main; main()", "report", kind]
    subprocess.run([*call, "--from", str(source), "--out", str(out)], check=True)
    after = os.times()
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, busy


def opened(browser: Browser, page: Path) -> tuple[float, float]:
    """Open a page; return the seconds until its first drawing stands, and until all of them do."""
    began = time.perf_counter()
    browser.open(page)
    first = (
        "document.querySelector('.plot')?.dataset.drawn || document.querySelector('.timeline')?.dataset.mode"
    )
    browser.until(first)
    shown = time.perf_counter() - began
    browser.scroll_through()
    return shown, time.perf_counter() - began


def redraws(browser: Browser) -> str:
    """Return how long the open timeline takes to be drawn again at each zoom, the least of six."""
    told = []
    for _ in range(ZOOMS):
        took_ms = browser.run("""
            const canvas = document.querySelector(".timeline canvas"), took = [];
            for (let i = 0; i < 6; i++) {
                const began = performance.now();
                canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
                took.push(performance.now() - began);
            }
            return Math.min(...took);
        """)
        state = browser.run("return {...document.querySelector('.timeline').dataset}")
        told.append(f"{took_ms:.0f} ms ({state['mode']}, {int(state['bars']):,})")
        browser.find(".timeline .tools button").click()
    return ", ".join(told)


def main() -> int:
    """Print the table."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("simulation", type=Path, help="folder that simulate wrote")
    ap.add_argument("--compare", type=Path, help="folder that compare wrote")
    a = ap.parse_args()
    browser = Browser()
    header = ("report", "build s", "of a processor s", "MB", "opens s", "whole s", "again s")
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    with tempfile.TemporaryDirectory() as folder:
        sources = [(kind, a.simulation) for kind in KINDS] + ([("compare", a.compare)] if a.compare else [])
        for kind, source in sources:
            page = Path(folder) / f"{kind}.html"
            wall_s, busy_s = built(kind, source, page)
            shown_s, whole_s = opened(browser, page)
            again_s, _ = opened(browser, page)
            size = page.stat().st_size / 1e6
            times = " | ".join(f"{s:.2f}" for s in (shown_s, whole_s, again_s))
            if kind == "timeline":
                drawn = redraws(browser)
            print(f"| {kind} | {wall_s:.1f} | {busy_s:.1f} | {size:.1f} | {times} |")
    browser.close()
    print(f"\nThe timeline drawn again, from all of it inwards: {drawn}.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
