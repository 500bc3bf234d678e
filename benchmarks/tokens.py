"""Documents as trees of tokens: how a file is written, whatever it means; for fuzzing.

A token is a scalar exactly as it stands in the text, quotes included, so that anything can take its place.
Keys may come twice. What is read as one form (YAML, JSON) can be written as another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import yaml

MAX_DEPTH = 60
MAX_TOKENS = 20_000
"""Trees deeper or larger than this are text to us."""

INDENT = "  "

_JSON_AS_IT_IS = re.compile(r"""["\[{].*|-?[0-9][0-9.eE+-]*|true|false|null|NaN|-?Infinity""", re.DOTALL)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Box:
    """A list, or with `keys` (tokens, one for each value) a mapping."""

    values: list[Tree]
    keys: list[str] | None = None


Tree: TypeAlias = str | Box


class UnreadableError(ValueError):
    """The text is no tree, or too large a one."""


# -- reading -----------------------------------------------------------------------------------------


def read(text: str) -> Box:
    """Return the tree of a YAML or JSON text; UnreadableError where there is none."""
    root = Box([])
    open_boxes, tokens = [root], 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            tokens += 1
            if isinstance(event, yaml.CollectionStartEvent):
                box = Box([], [] if isinstance(event, yaml.MappingStartEvent) else None)
                _put(open_boxes[-1], box)
                open_boxes.append(box)
            elif isinstance(event, yaml.CollectionEndEvent):
                open_boxes.pop()
            elif isinstance(event, yaml.ScalarEvent):
                _put(open_boxes[-1], event.value if event.implicit[0] else json.dumps(event.value))
            elif isinstance(event, yaml.AliasEvent):
                _put(open_boxes[-1], f"*{event.anchor}")
            if len(open_boxes) > MAX_DEPTH or tokens > MAX_TOKENS:
                raise UnreadableError
    except (yaml.YAMLError, UnicodeError):
        raise UnreadableError from None
    if len(root.values) != 1 or not isinstance(root.values[0], Box):
        raise UnreadableError
    return root.values[0]


def _put(box: Box, tree: Tree) -> None:
    """Add a tree to a box: as the key of a mapping, where one is due."""
    if box.keys is not None and len(box.keys) == len(box.values):
        if isinstance(tree, Box):
            raise UnreadableError
        box.keys.append(tree)
    else:
        box.values.append(tree)


# -- writing -----------------------------------------------------------------------------------------


def json_text(tree: Tree, indent: str = "", pad: str = "\n") -> str:
    """Write JSON: on one line, or with an indent; what JSON cannot hold is put in quotes."""
    if isinstance(tree, str):
        return tree if _JSON_AS_IT_IS.fullmatch(tree) else json.dumps(tree)
    inner = pad + indent
    entries = [json_text(value, indent, inner) for value in tree.values]
    if tree.keys is not None:
        keys = (key if key.startswith('"') else json.dumps(key) for key in tree.keys)
        entries = [f"{key}: {entry}" for key, entry in zip(keys, entries, strict=True)]
    left, right = "[]" if tree.keys is None else "{}"
    if not indent or not entries:
        return left + ", ".join(entries) + right
    return left + inner + f",{inner}".join(entries) + pad + right


def flow_text(tree: Tree) -> str:
    """Write YAML's flow form, tokens as they are."""
    if isinstance(tree, str):
        return tree
    if tree.keys is None:
        return f"[{', '.join(map(flow_text, tree.values))}]"
    entries = zip(tree.keys, tree.values, strict=True)
    return "{" + ", ".join(f"{key}: {flow_text(value)}" for key, value in entries) + "}"


def block_text(tree: Box) -> str:
    """Write YAML's block form, a line for each entry that holds no others."""
    return "\n".join(_lines(tree, "")) + "\n"


def _lines(box: Box, pad: str) -> Iterator[str]:
    """Yield the lines of a box; innermost lists and mappings stand on one line."""
    for i, value in enumerate(box.values):
        head = f"{pad}-" if box.keys is None else f"{pad}{box.keys[i]}:"
        if isinstance(value, Box) and any(isinstance(inner, Box) for inner in value.values):
            yield head
            yield from _lines(value, pad + INDENT)
        else:
            yield f"{head} {flow_text(value)}"


# -- tables ------------------------------------------------------------------------------------------


def read_table(text: str) -> Box:
    """Return CSV text as a list of lists of cells."""
    return Box([Box(list(line.split(","))) for line in text.split("\n")])


def table_text(tree: Tree) -> str:
    """Write a list of lists of cells as CSV; whatever else is in it stands there as one cell."""
    rows = tree.values if isinstance(tree, Box) else [tree]
    lines = (row.values if isinstance(row, Box) else [row] for row in rows)
    return "\n".join(",".join(map(flow_text, line)) for line in lines)
