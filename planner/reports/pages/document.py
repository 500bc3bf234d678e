"""A page in parts, and the one file that it becomes: nothing is loaded from anywhere, everything is escaped.

Colours that depend on the theme stand in figures as `@ink`, `@muted` and `@faint`; the page fills them in.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from planner.errors import InputError

WEB = "planner.reports"
Figure = dict[str, Any]
"""`data` and `layout` of plotly.js."""


@dataclass(frozen=True)
class Panel:
    """One drawing of a chart, with the words above it."""

    figure: Figure
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """A sentence that reads the chart, one drawing or many small ones, and the table behind them.

    Attributes
    ----------
    about : str
        How to read it: what lines and colours are.
    name : str
        Of its CSV file.
    key : tuple of (colour, label)
    """

    name: str
    sentence: str
    panels: Sequence[Panel]
    table: pd.DataFrame
    about: str = ""
    key: Sequence[tuple[str, str]] = ()

    kind = "chart"


@dataclass(frozen=True)
class Grid:
    """A table that is read as it stands; a cell may be a number, a text, or a `Bar`."""

    name: str
    sentence: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    table: pd.DataFrame
    about: str = ""

    kind = "grid"


@dataclass(frozen=True)
class Bar:
    """A number with a bar: `part` of its full length 0 to 1, a mark where the promise is, a colour."""

    text: str
    part: float
    colour: str
    mark: float | None = None

    kind = "bar"


@dataclass(frozen=True)
class Name:
    """The name of a budget, indented by its depth, with its colour and perhaps a page of its own."""

    text: str
    colour: str = ""
    depth: int = 0
    href: str = ""

    kind = "name"


@dataclass(frozen=True)
class Cells:
    """Nodes in a row: how full each is, 0 to 1, or the word for what ails it; and what to say of it."""

    nodes: Sequence[tuple[float | str, str]]

    kind = "cells"


@dataclass(frozen=True)
class Prose:
    """Paragraphs under a heading, each with a word or two that it begins with, or without."""

    title: str
    paragraphs: Sequence[str | tuple[str, str]]

    kind = "prose"


@dataclass(frozen=True)
class Canvas:
    """The timeline: its data in compact arrays; `web/timeline.js` draws them, and makes the table of them."""

    name: str
    sentence: str
    data: dict[str, Any]
    table: pd.DataFrame
    about: str = ""
    key: Sequence[tuple[str, str]] = ()

    kind = "canvas"


Part = Chart | Grid | Prose | Canvas


@dataclass(frozen=True)
class Page:
    """A whole page.

    Attributes
    ----------
    lede : str
        What the page says, in a sentence or two.
    facts : sequence of (figure, what it is)
    source : str
        What it was made from.
    links : sequence of (address, name)
        To the other pages of a site.
    stale_after_s, made_s : int or None
        Later than `stale_after_s` after `made_s` (epoch seconds) the page says that it is stale.
    """

    title: str
    lede: str
    parts: Sequence[Part]
    facts: Sequence[tuple[str, str]] = ()
    source: str = ""
    links: Sequence[tuple[str, str]] = ()
    made_s: int | None = None
    stale_after_s: int | None = None
    notes: Sequence[str] = field(default_factory=tuple)


def render(page: Page) -> str:
    """Return the HTML of a page, complete in itself."""
    scripts = [plotly()] if any(part.kind == "chart" for part in page.parts) else []
    scripts += [_text("report.js")]
    if any(part.kind == "canvas" for part in page.parts):
        scripts += [_text("runs.js"), _text("timeline.js")]
    return _template().render(
        page=page,
        style=Markup(_text("report.css")),  # noqa: S704 - our own file
        scripts=[Markup(script) for script in scripts],  # noqa: S704 - our own and plotly's
        policy=_policy(scripts),
        data={part.name: _data(part) for part in page.parts if not isinstance(part, Prose)},
    )


def number(value: Any, digits: int = 0) -> str:
    """Return a number as people read it; a missing one is a dash."""
    if value is None or pd.isna(value):
        return "-"
    return f"{value:,.{digits}f}"


def _policy(scripts: Sequence[str]) -> str:
    """Return the Content-Security-Policy: these scripts and no others, and no network."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{found}'" for found in hashes)
    rest = "img-src data: blob:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; {rest}"


def _data(part: Chart | Grid | Canvas) -> Markup:
    """Return what the page's script needs of a part, as JSON that cannot end its element."""
    if isinstance(part, Canvas):
        out: dict[str, Any] = {"canvas": part.data}
    else:
        out = {"table": _columns(part.table)}
    if isinstance(part, Chart):
        out["figures"] = [panel.figure for panel in part.panels]
    text = json.dumps(out, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028"))  # noqa: S704 - escaped here


def _columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the columns of a table, numbers rounded to what a reader can use."""
    return {str(name): [_cell(value) for value in table[name].tolist()] for name in table}


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return None if pd.isna(value) else round(value, 4)
    return None if value is pd.NA else value


@cache
def _template() -> jinja2.Template:
    env = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    env.filters["number"] = number
    return env.from_string(_text("page.html"))


@cache
def _text(name: str) -> str:
    return files(WEB).joinpath("web", name).read_text(encoding="utf-8")


@cache
def plotly() -> str:
    """Return plotly.js as the Python package brings it."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise InputError(["charts need plotly, write: pip install 'gangplan[reports]'"]) from None
    text: str = get_plotlyjs()
    return text
