"""Pages: complete in themselves, escaped, and held by their policy to the scripts that they carry."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser

import pandas as pd
import pytest

from planner.errors import InputError
from planner.reports.pages import document
from planner.reports.pages.clock import clock, clocks
from planner.reports.pages.document import Bar, Canvas, Chart, Grid, Name, Page, Panel, Prose, number, render

NASTY = "</script><script>alert(1)</script>"
ODD = [NASTY, '"><img src=x onerror=alert(1)>', "<!--", "a&b", "\u2028", "{{ 7 * 7 }}", "]]>", "'"]


class Reader(HTMLParser):
    """Reads what a browser would: elements with attributes, scripts, and all visible text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements, self.scripts, self.words, self.inside = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.inside.append((tag, dict(attrs)))
            self.scripts += [(dict(attrs), "")] if tag == "script" else []

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self.inside.pop()

    def handle_data(self, data):
        if not self.inside:
            self.words.append(data)
        elif self.inside[-1][0] == "script":
            attrs, text = self.scripts[-1]
            self.scripts[-1] = (attrs, text + data)


def page(words=NASTY, **more):
    table = pd.DataFrame({"name": ODD, "n": range(len(ODD))})
    figure = {"data": [{"type": "bar", "x": ODD, "y": [1] * len(ODD)}], "layout": {"height": 90}}
    cells = [(Name(w, "#000000", 1, "x.html"), Bar(w, 0.5, "#123456", 1.0), w, None, 3) for w in ODD]
    parts = [
        Prose(words, ODD),
        Grid("grid", words, ["A", "B", words, "D", "E"], cells, table, words),
        Chart("chart", words, [Panel(figure, words, words)], table, words, [("#abcdef", words)]),
        Canvas("canvas", words, {"ids": ODD}, table),
    ]
    return Page(words, words, parts, [(words, words)], words, [("x.html", words)], notes=[words], **more)


@pytest.fixture(scope="module")
def html():
    return render(page())


def test_no_word_of_a_user_becomes_an_element(html):
    allowed = (
        "html head meta link title style body header nav span a button main p h1 dl div dt dd section h2 ul "
        "li svg rect figure figcaption b table thead tbody tr th td details summary small footer script"
    )
    found = Reader(html)
    assert {tag for tag, _ in found.elements} <= set(allowed.split())
    assert not [name for _, attrs in found.elements for name in attrs if name.startswith("on")]
    assert "alert(1)" not in "".join(text for attrs, text in found.scripts if "type" not in attrs)


def test_every_word_of_a_user_is_shown_as_it_is(html):
    words = Reader(html).words
    assert all(any(odd.strip() == w.strip() for w in words) for odd in ODD)


def test_the_data_of_a_part_survive_as_json(html):
    data = {a["id"]: json.loads(t) for a, t in Reader(html).scripts if a.get("type") == "application/json"}
    assert data["data-grid"]["table"]["name"] == ODD
    assert data["data-chart"]["figures"][0]["data"][0]["x"] == ODD
    assert data["data-canvas"]["canvas"]["ids"] == ODD


def test_the_policy_allows_exactly_the_scripts_of_the_page(html):
    found = Reader(html)
    (policy,) = [a["content"] for t, a in found.elements if a.get("http-equiv") == "Content-Security-Policy"]
    scripts = [text for attrs, text in found.scripts if "type" not in attrs]
    hashes = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts}
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == hashes
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]


def test_nothing_is_loaded_from_anywhere(html):
    for tag, attrs in Reader(html).elements:
        assert "src" not in attrs
        assert tag != "link" or attrs["href"] == "data:,"
    assert "@import" not in html.partition("<body")[0]
    assert "url(" not in html.partition("<body")[0]


def test_a_page_without_charts_carries_no_plotly():
    plain = Page("t", "l", [Grid("g", "s", ["A"], [["x"]], pd.DataFrame({"a": [1]}))])
    assert len(render(plain)) < 40_000


def test_without_plotly_charts_say_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    document.plotly.cache_clear()
    with pytest.raises(InputError, match=r"pip install 'gangplan\[reports\]'"):
        render(page())


def test_a_page_without_a_made_time_is_never_stale(html):
    assert "data-stale" not in html.partition("<main")[0]
    dated = render(page(made_s=1_000_000, stale_after_s=900))
    assert 'data-made="1000000" data-stale="900"' in dated


def test_missing_numbers_are_dashes_and_large_ones_have_commas():
    assert [number(x) for x in (None, float("nan"), pd.NA, 1234567.4, 0)] == ["-", "-", "-", "1,234,567", "0"]
    assert number(1.005, 2) in ("1.00", "1.01")


def test_missing_values_of_tables_are_null():
    table = pd.DataFrame({"x": [1.5, None], "y": pd.Series([1, None], dtype="Int64")})
    text = render(Page("t", "l", [Grid("g", "s", ["A"], [["x"]], table)]))
    data = [json.loads(t) for a, t in Reader(text).scripts if a.get("type") == "application/json"]
    assert data[0]["table"] == {"x": [1.5, None], "y": [1, None]}


def test_times_are_told_as_dates_or_as_days_of_a_trace():
    assert clock("2026-10-09T16:20:00Z") == "Oct 9, 16:20"
    assert clock("2000-01-10T05:35:59Z") == "day 9, 05:35"
    assert clock(None) == "-"
    assert clock("interruptible") == "interruptible"
    assert (
        clocks("until 2026-10-09T16:20:00Z or 2026-10-10T00:00:00Z.")
        == "until Oct 9, 16:20 or Oct 10, 00:00."
    )
