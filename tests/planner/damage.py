"""Files with damage: random cuts in the text, and random values in the wrong places."""

from __future__ import annotations

import copy
import json

import yaml
from hypothesis import strategies as st

from planner.errors import InputError
from tests.planner.faults import assert_lines

SPLINTERS = [
    "",
    " ",
    "\n",
    "\t",
    ":",
    ",",
    "-",
    "{",
    "}",
    "[",
    "]",
    "'",
    '"',
    "#",
    "&a",
    "*a",
    "!",
    "|",
    "no",
    "-1",
]
SPLINTERS += [
    "0",
    "1e999",
    ".nan",
    "010",
    "1:30",
    "\0",
    "\ufeff",
    "\ud800",
    "名",
    "null",
    "%",
    "? ",
    "<<: ",
    "a/b",
]
VALUES = [
    None,
    True,
    -1,
    0,
    1.5,
    "",
    "x",
    "8h",
    "4%",
    [],
    {},
    [[]],
    [{}],
    {"name": "a"},
    10**30,
    "n[1-3]",
    "a/b",
]


@st.composite
def mutations(draw: st.DrawFn, text: str) -> str:
    """Return the text with a few pieces cut out, doubled, or put in."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        middle = draw(st.sampled_from([*SPLINTERS, text[start:end] * 2]))
        text = text[:start] + middle + text[end:]
    return text


@st.composite
def revaluations(draw: st.DrawFn, text: str) -> str:
    """Return the content of a YAML text as JSON, with a few values replaced by others."""
    root = copy.deepcopy(yaml.load(text, yaml.BaseLoader))
    for _ in range(draw(st.integers(1, 3))):
        here = root
        while here:
            key = draw(st.sampled_from(list(here) if isinstance(here, dict) else range(len(here))))
            if not isinstance(here[key], dict | list) or draw(st.booleans()):
                here[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
                break
            here = here[key]
    return json.dumps(root, indent=1)


def parsed_or_refused(read, *args) -> None:
    """Check that a reader either returns or refuses in the agreed form."""
    try:
        read(*args)
    except InputError as error:
        assert_lines(error.messages)
