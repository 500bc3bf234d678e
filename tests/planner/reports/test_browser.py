"""What a browser makes of the pages: it opens them from disk, draws, zooms, clicks, and asks nobody."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from planner.reports.folder import replace_folder
from planner.reports.frames.books import of_shares, of_simulation
from planner.reports.frames.compared import Compared
from planner.reports.frames.scene import scene_of
from planner.reports.frames.simulated import Simulated
from planner.reports.frames.timeline import RUN_COLUMNS, Timeline
from planner.reports.frames.timeline import of_simulation as timeline_of
from planner.reports.pages import allocations, compare, fragmentation, timeline
from planner.reports.pages.document import number, render
from planner.reports.pages.site import Contents
from planner.reports.pages.site import pages as site
from planner.reports.palette import colours
from tests.planner.cli.calling import gangplan
from tests.planner.reports.browsing import CHROMIUM, DRIVER, LAPTOP, PHONE, Browser
from tests.planner.simulation.comparing import write_inputs
from tests.planner.worlds import world

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER) and "GANGPLAN_BROWSER" not in os.environ,
    reason="Debian's chromium and chromium-driver are not installed",
)

NASTY = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
KINDS = ("allocations", "fragmentation", "timeline", "compare")


@pytest.fixture(scope="module")
def browser():
    found = Browser()
    yield found
    found.close()


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    write_inputs(folder, length=40)
    called = gangplan(
        "compare", "--site", folder / "site.yaml", "--trace", folder / "work-0.csv",
        "--policy", "budget-greedy", "--policy", "fifo", "--days", "0.5", "--period", "5m", "--jobs", "1",
        "--out", folder / "out",
    )  # fmt: skip
    assert called.code == 0, called
    return folder / "out"


@pytest.fixture(scope="module")
def scene():
    """A cluster with a promise, victims, a broken node, and a workload with a name that would be markup."""
    work = [
        {"id": "p", "on": "n[1-2]", "allocation": "b", "ran": "10m", "min_runtime": "1h"},
        {"id": "v", "on": "n3", "allocation": "b"},
        {"id": NASTY, "replicas": 2, "allocation": "a"},
        {"id": "big", "replicas": 3, "allocation": "a"},
    ]
    nodes = [{"names": "n[1-3]"}, {"names": "n4", "state": "draining"}]
    place = world(
        workloads=work, nodes=nodes, ratios={"a": 0.2, "b": 1.5}, site={"plan_ahead": {"reservations": 4}}
    )
    return scene_of(place.site, place.snapshot)


@pytest.fixture(scope="module")
def pages(tmp_path_factory, compared, scene) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = Simulated(compared / "budget-greedy,seed=0")
    made = {
        "allocations": allocations.page(of_simulation(found), None, ""),
        "fragmentation": fragmentation.page(scene, "", found),
        "timeline": timeline.page(timeline_of(found), list(found.shares), ""),
        "compare": compare.page(Compared(compared), ""),
    }
    for kind, page in made.items():
        (folder / f"{kind}.html").write_text(render(page))
    replace_folder(
        folder / "www", site(Contents(scene, of_shares(scene.plan.shares), None, int(time.time()), 900))
    )
    return {kind: folder / f"{kind}.html" for kind in KINDS} | {"www": folder / "www"}


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_opens_from_disk_draws_everything_and_asks_nobody(browser, pages, kind, size):
    browser.open(pages[kind], size)
    browser.scroll_through()
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.run("return document.documentElement.scrollWidth") <= size[0]
    for drawing in browser.all(".plot"):
        assert browser.run("return arguments[0].querySelectorAll('svg.main-svg').length", drawing) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_tables_behind_the_charts_hold_the_numbers_of_the_frames(browser, pages, kind):
    browser.open(pages[kind])
    for behind in browser.all("details.behind"):
        browser.run("arguments[0].open = true", behind)
    browser.until("[...document.querySelectorAll('details.behind')].every((d) => d.querySelector('button'))")
    for behind in browser.all(".chart details.behind"):
        part = behind.get_attribute("data-part")
        data = browser.run("return report.data(arguments[0]).table", part)
        shown = browser.run(
            "return [...arguments[0].querySelectorAll('td')].map((c) => c.textContent)", behind
        )
        numbers = [x for column in data.values() for x in column[:300] if isinstance(x, int | float)]
        told = browser.run(
            "return arguments[0].map((x) => x.toLocaleString('en', {maximumFractionDigits: 3}))", numbers
        )
        assert set(told) <= set(shown)


def test_the_csv_holds_every_row(browser, pages):
    browser.open(pages["allocations"])
    browser.run("""
        window.saved = null;
        URL.createObjectURL = (blob) => {
            blob.text().then((t) => { window.saved = t; });
            return "blob:none";
        };
        HTMLAnchorElement.prototype.click = () => {};
        const behind = document.querySelector("#history .behind");
        behind.open = true;
    """)
    browser.until("document.querySelector('#history .behind button')")
    browser.run("document.querySelector('#history .behind button').click()")
    browser.until("window.saved !== null")
    rows = browser.run("return Object.values(report.data('history').table)[0].length")
    assert browser.run("return window.saved").count("\r\n") == rows + 1


@pytest.mark.parametrize("kind", ["allocations", "timeline"])
def test_the_theme_follows_the_system_and_then_the_button(browser, pages, kind):
    paper = "getComputedStyle(document.body).backgroundColor"
    browser.open(pages[kind], theme="dark")
    assert browser.run(f"return {paper}") == "rgb(21, 24, 29)"
    browser.find("#theme").click()
    assert browser.run(f"return {paper}") == "rgb(252, 252, 250)"
    assert browser.find("#theme").text == "Dark"
    browser.find("#theme").click()
    assert browser.run(f"return {paper}") == "rgb(21, 24, 29)"
    browser.run("localStorage.clear()")
    assert browser.complaints() == []


def test_text_of_charts_has_the_ink_of_the_theme(browser, pages):
    for theme, ink in (("light", "rgb(29, 33, 41)"), ("dark", "rgb(232, 234, 238)")):
        browser.open(pages["allocations"], theme=theme)
        browser.until("document.querySelector('#promise .bartext')")
        fill = browser.run("return getComputedStyle(document.querySelector('#promise .bartext')).fill")
        assert fill == ink


# -- the timeline -------------------------------------------------------------------------------------


def state(browser) -> dict[str, str]:
    return browser.run("return {...document.querySelector('.timeline').dataset}")


@pytest.fixture(scope="module")
def checkered(tmp_path_factory) -> tuple[Path, list[str]]:
    """Return a timeline of 1,024 GPUs on which every node changes hands each hour, and its colours."""
    nodes, hours, names = 128, 24, ["a", "b", "c"]
    runs = pd.DataFrame(
        [
            (
                f"w{n}-{h}",
                names[(n + h) % 3],
                8,
                "allocated",
                3600 * h,
                3600 * (h + 1),
                3600 * (h + 1),
                "finish",
                0,
            )
            for n in range(nodes)
            for h in range(hours)
        ],
        columns=RUN_COLUMNS,
    )
    found = Timeline(
        origin_s=None,
        now_s=None,
        end_s=3600 * hours,
        nodes=pd.DataFrame({"node": [f"n{n}" for n in range(nodes)], "place": "l", "gpus": 8}),
        runs=runs,
        bars=pd.DataFrame(
            {"run": range(len(runs)), "row": np.repeat(np.arange(nodes) * 8, hours), "rows": 8}
        ),
        gainers={},
        holds=pd.DataFrame(columns=["workload", "from_s", "until_s", "row", "rows"]),
        workloads=runs.rename(columns={"workload": "id"})[["id", "allocation", "gpus"]].assign(
            submitted_s=0, end_s=3600 * hours, state="finished"
        ),
    )
    path = tmp_path_factory.mktemp("checkered") / "timeline.html"
    path.write_text(render(timeline.page(found, names, "")))
    shades = colours(names)
    return path, [shades[name] for name in names]


def pixel(browser, hour: int, node: int) -> str:
    """Return the colour in the middle of the cell of a node and an hour, whatever the view."""
    found = browser.run("""
        const canvas = document.querySelector(".timeline canvas");
        const view = document.querySelector(".timeline").dataset;
        const t = (arguments[0] + 0.5) * 3600, r = arguments[1] * 8 + 4.5;
        const x = 74 + (t - view.t0) / (view.t1 - view.t0) * (canvas.width - 74);
        const y = (r - view.r0) / (view.r1 - view.r0) * (canvas.height - 22);
        return [...canvas.getContext("2d").getImageData(Math.round(x), Math.round(y), 1, 1).data];
    """, hour, node)  # fmt: skip
    return "#" + "".join(f"{part:02x}" for part in found[:3])


def test_the_timeline_is_a_raster_at_a_distance_and_bars_near_with_the_same_colours(browser, checkered):
    path, shades = checkered
    browser.open(path)
    browser.until("document.querySelector('.timeline').dataset.mode")
    assert state(browser)["mode"] == "raster"
    for hour, node in ((0, 0), (3, 17), (11, 64), (23, 127), (12, 65)):
        assert pixel(browser, hour, node) == shades[(hour + node) % 3]
    before = state(browser)
    for _ in range(4):
        browser.find(".timeline .tools button").click()
    after = state(browser)
    assert after["mode"] == "bars"
    assert float(after["t1"]) - float(after["t0"]) == pytest.approx(
        (float(before["t1"]) - float(before["t0"])) / 16
    )
    assert pixel(browser, 11, 63) == shades[(11 + 63) % 3]
    assert int(after["bars"]) < int(before["bars"]) / 16


def test_every_button_and_key_keeps_the_view_inside_the_simulation(browser, pages):
    browser.open(pages["timeline"])
    end = browser.run("return report.data('runs').canvas.end")
    canvas = browser.find(".timeline canvas")
    for key in [
        "+",
        "ArrowLeft",
        "ArrowUp",
        "+",
        "+",
        "ArrowRight",
        "ArrowDown",
        "-",
        "-",
        "-",
        "-",
        "-",
        "0",
    ]:
        browser.run(
            "arguments[0].dispatchEvent(new KeyboardEvent('keydown', {key: arguments[1]}))", canvas, key
        )
        now = {name: float(value) for name, value in state(browser).items() if re.match("[tr][01]", name)}
        assert 0 <= now["t0"] < now["t1"] <= end
        assert 0 <= now["r0"] < now["r1"] <= 16
    assert (now["t0"], now["t1"], now["r0"], now["r1"]) == (0, end, 0, 16)


def test_a_click_on_a_bar_tells_the_life_of_its_workload_and_why_it_was_preempted(browser, pages, compared):
    found = timeline_of(Simulated(compared / "budget-greedy,seed=0"))
    row = next(row for row, gainers in found.gainers.items() if gainers)
    run, bar = found.runs.loc[row], found.bars[found.bars["run"] == row].iloc[0]
    browser.open(pages["timeline"])
    browser.until("document.querySelector('.timeline').dataset.mode")
    place = browser.run("""
        const canvas = document.querySelector('.timeline canvas'), box = canvas.getBoundingClientRect();
        const [time, row, end, rows] = arguments;
        canvas.scrollIntoView({block: 'center'});
        const now = canvas.getBoundingClientRect();
        const left = now.left + 74 + time / end * (now.width - 74);
        return {x: left, y: now.top + row / rows * (now.height - 22)};
    """, (int(run["start_s"]) + int(run["end_s"])) / 2, int(bar["row"]) + 0.5, found.end_s, 16)  # fmt: skip
    for kind in ("mousePressed", "mouseReleased"):
        click = {"type": kind, "x": place["x"], "y": place["y"], "button": "left", "clickCount": 1}
        browser.driver.execute_cdp_cmd("Input.dispatchMouseEvent", click)
    browser.until("!document.querySelector('.life').hidden")
    story = browser.find(".life").text
    assert story.startswith(run["workload"])
    assert f"made room for {found.gainers[row][0]}" in story
    assert "submitted" in story


def test_a_workload_is_found_by_its_id(browser, pages, compared):
    name = timeline_of(Simulated(compared / "budget-greedy,seed=0")).runs["workload"].iloc[5]
    browser.open(pages["timeline"])
    find = browser.find(".timeline input")
    find.send_keys(name + "\n")
    browser.until("!document.querySelector('.life').hidden")
    assert browser.find(".life h3").text == name
    assert state(browser)["mode"] == "bars"
    find.clear()
    find.send_keys("nobody\n")
    browser.until("document.querySelector('.where').textContent.includes('no workload nobody')")


# -- the site -----------------------------------------------------------------------------------------


def test_every_page_of_the_site_opens_from_disk_and_asks_nobody(browser, pages):
    for path in sorted(pages["www"].glob("*.html")):
        browser.open(path, PHONE)
        assert browser.complaints() == []
        assert browser.requests() == []
        assert browser.run("return document.documentElement.scrollWidth") <= PHONE[0]
        assert not browser.find("#stale").is_displayed()


def test_a_workload_called_script_is_shown_and_not_run(browser, pages):
    for name in ("queue.html", "plan.html", "nodes.html", "timeline.html"):
        browser.open(pages["www"] / name)
        assert browser.run("return window.hit") is None
    browser.open(pages["www"] / "plan.html")
    assert NASTY in browser.find("main").text


def test_the_policy_holds_against_what_would_slip_through(browser, pages):
    browser.open(pages["www"] / "queue.html")
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hit = 1\">')")
    browser.run("""
        const script = document.createElement("script");
        script.textContent = "window.hit = 1";
        document.body.append(script);
    """)
    browser.run("fetch('https://example.org/').catch(() => {})")
    time.sleep(0.2)
    assert browser.run("return window.hit") is None
    assert any("Content Security Policy" in text for text in browser.complaints())
    assert browser.requests() == []


def test_a_stale_site_says_so(browser, scene, tmp_path):
    old = Contents(scene, of_shares(scene.plan.shares), None, int(time.time()) - 7500, 900)
    replace_folder(tmp_path / "www", site(old))
    browser.open(tmp_path / "www" / "index.html")
    assert browser.find("#stale").text == "This page is 2 h 5 min old: what should refresh it has stopped."


def test_the_overview_holds_the_numbers_of_the_plan(browser, pages, scene):
    browser.open(pages["www"] / "allocations.html")
    text = browser.find("#tree").text
    for row in scene.plan.shares:
        assert number(row.entitled) in text
        assert number(row.delivered) in text


# -- paper --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["allocations", "fragmentation"])
def test_a_page_prints_on_a4_with_its_charts(browser, pages, kind):
    browser.open(pages[kind], theme="dark")
    printed = browser.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    assert len(printed["data"]) > 30_000
    assert browser.complaints() == []
    drawn = browser.run("return [...document.querySelectorAll('.plot')].every((p) => p.dataset.drawn)")
    assert drawn
