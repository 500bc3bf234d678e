"""Takes the pictures of the README: `python -m benchmarks.pictures SIMULATION`, into docs/pictures.

The simulation is that of docs/reports.md. Needs `chromium`, `chromium-driver`, and selenium.
"""

from __future__ import annotations

import argparse
import base64
import tempfile
from pathlib import Path

from planner.reports.make import Request, make
from tests.planner.reports.browsing import Browser

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "ai2"
SCALE = 0.8


def requests(simulation: Path) -> dict[str, tuple[Request, str, int]]:
    """Return what is shown on each picture: the page, the part that it begins with, its height in pixels."""
    snapshot, site = str(EXAMPLE / "snapshot.json"), EXAMPLE / "site.yaml"
    return {
        "allocations": (Request("allocations", str(simulation)), "h1", 830),
        "fragmentation": (Request("fragmentation", snapshot, site), "section.prose", 990),
        "timeline": (Request("timeline", str(simulation)), "#runs", 840),
    }


def take(browser: Browser, page: Path, begin: str, height: int) -> bytes:
    """Return a picture of a page from an element on, as PNG."""
    browser.open(page)
    browser.scroll_through()
    top = browser.run(
        "return document.querySelector(arguments[0]).getBoundingClientRect().top + scrollY", begin
    )
    clip = {"x": 93, "y": max(0, top - 20), "width": 1180, "height": height, "scale": SCALE}
    shot = {"format": "png", "captureBeyondViewport": True, "clip": clip}
    return base64.b64decode(browser.driver.execute_cdp_cmd("Page.captureScreenshot", shot)["data"])


def main() -> int:
    """Write the pictures, and say how large they are."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("simulation", type=Path, help="folder that simulate wrote")
    a = ap.parse_args()
    out = ROOT / "docs" / "pictures"
    out.mkdir(exist_ok=True)
    browser = Browser()
    with tempfile.TemporaryDirectory() as folder:
        for name, (request, begin, height) in requests(a.simulation).items():
            page = Path(folder) / f"{name}.html"
            page.write_text(make(request), encoding="utf-8")
            picture = take(browser, page, begin, height)
            (out / f"{name}.png").write_bytes(picture)
            print(f"{name}.png: {len(picture) / 1e3:.0f} kB")
    browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
