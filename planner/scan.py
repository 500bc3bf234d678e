"""YAML and JSON text to one stream of events, each with its line and column.

Both formats share one idea of a scalar: JSON's. In YAML, too, only `null`, `true`, `false` and JSON's
numbers are more than text, so that `no`, `1:30`, `010` and dates stay what their writers typed. Aliases,
tags and merge keys are faults: they hide what a file says, and can blow up.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

import yaml

from planner.units import MAX_EXPONENT, MIN_EXPONENT
from planner.words import printable

Scalar = str | int | Decimal | bool | None

Loc = tuple[str | int, ...]
"""Where something is in a file: keys and list indices from the top."""

Position = tuple[int, int]
"""Line and column, both from 1."""

LONGEST_NUMBER = 64

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS: dict[str, Scalar] = {"": None, "~": None, "null": None, "true": True, "false": False}
_TOKEN = re.compile(r'([{}\[\]])|("[^"\\]*(?:\\.[^"\\]*)*")|([^\s{}\[\]:,"]+)|(\n)')
_UNREADABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_BLANKS = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Event(NamedTuple):
    """A piece of a file; `plain` text may be a number, `text` (quoted) never is. Lines and columns from 1."""

    kind: str  # one of { } [ ] text plain
    text: str
    line: int
    column: int
    fault: str | None = None


class ScanError(Exception):
    """The text cannot be read beyond this place."""

    def __init__(self, line: int, column: int, fault: str) -> None:
        super().__init__(fault)
        self.line = line
        self.column = column
        self.fault = fault


def number(text: str) -> int | Decimal | None:
    """Return the exact number that a text is in JSON's way of writing, or None."""
    match = _NUMBER.fullmatch(text) if len(text) <= LONGEST_NUMBER else None
    if match is None:
        return None
    if match.group(1) is None and match.group(2) is None:
        return int(text)
    if len(match.group(2) or "") > len("e-400"):
        return None
    value = Decimal(text)
    return value if MIN_EXPONENT <= value.adjusted() <= MAX_EXPONENT else None


def resolve(text: str) -> Scalar:
    """Return what unquoted text means: null, a truth value, a number, or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "-0123456789":
        value = number(text)
        return text if value is None else value
    return text


def check_characters(text: str) -> None:
    """Raise ScanError at the first character that no text file should hold."""
    match = _UNREADABLE.search(text)
    if match:
        line, column = place(text, match.start())
        code = f"U+{ord(match.group()):04X}"
        raise ScanError(line, column, f"holds the unreadable character {code}, remove it")


def place(text: str, offset: int) -> Position:
    """Return line and column of a character, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class JsonPlaces:
    """Finds places in JSON text by jumping: what lies between is passed over at the parser's full speed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known: dict[int, dict[str | int, tuple[int, int]]] = {}
        self._breaks: array[int] | None = None

    def locate(self, loc: Loc) -> Position:
        """Return where a key or an entry stands, or the nearest thing above it that is there."""
        found = here = self._skip(0)
        for step in loc:
            entries = self._entries(here)
            if step not in entries:
                break
            found, here = entries[step]
        return self._place(found)

    def _place(self, offset: int) -> Position:
        """Return line and column, as `place` does; the lines are counted once for all."""
        if self._breaks is None:
            self._breaks = array("q", (match.start() for match in re.finditer("\n", self._text)))
        line = bisect_left(self._breaks, offset)
        return line + 1, offset - (self._breaks[line - 1] if line else -1)

    def _entries(self, start: int) -> dict[str | int, tuple[int, int]]:
        """Return for each key or index of a container where it and where its value begins."""
        if start not in self._known:
            self._known[start] = dict(self._scan(start))
        return self._known[start]

    def _scan(self, start: int) -> Iterator[tuple[str | int, tuple[int, int]]]:
        text, index = self._text, 0
        if text[start] not in "{[":
            return
        at = self._skip(start + 1)
        while text[at] not in "}]":
            mark, key = at, index
            if text[start] == "{":
                key, at = _DECODER.raw_decode(text, at)
                at = self._skip(self._skip(at) + 1)
            yield key, (mark, at)
            index += 1
            at = self._skip(_DECODER.raw_decode(text, at)[1])
            if text[at] == ",":
                at = self._skip(at + 1)

    def _skip(self, at: int) -> int:
        """Step over blanks."""
        match = _BLANKS.match(self._text, at)
        assert match is not None
        return match.end()


def json_events(text: str) -> Iterator[Event]:
    """Scan text that is JSON, or would be but for NaN and the like."""
    line, start = 1, -1  # the current line, and the offset of the newline before it
    for match in _TOKEN.finditer(text):
        bracket, quoted, literal, newline = match.groups()
        column = match.start() - start
        if newline:
            line, start = line + 1, match.start()
        elif bracket:
            yield Event(bracket, "", line, column)
        elif quoted:
            value, fault = json.loads(quoted), None
            if not _encodable(value):  # pydantic would choke on a key with half a character
                value, fault = printable(value), "holds half a character, write the whole one"
            yield Event("text", value, line, column, fault)
        else:
            yield Event("plain", literal, line, column, _not_json_number(literal))


def _encodable(text: str) -> bool:
    """Say whether the text can be written out again: lone surrogates cannot."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _not_json_number(literal: str) -> str | None:
    """Say what is wrong with a literal that `json` takes and we do not."""
    if literal in ("true", "false", "null") or number(literal) is not None:
        return None
    return f"{printable(literal[:20])} is not a number to reckon with, write a finite one"


def yaml_events(text: str) -> Iterator[Event]:
    """Scan one YAML document; the scanner never recurses, whatever the depth."""
    documents = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            mark = event.start_mark
            assert mark is not None
            line, column = mark.line + 1, mark.column + 1
            if isinstance(event, yaml.ScalarEvent):
                plain = event.implicit[0]
                fault = _tagged(event) or (_MERGE if plain and event.value == "<<" else None)
                yield Event("plain" if plain else "text", event.value, line, column, fault)
            elif isinstance(event, yaml.MappingStartEvent):
                yield Event("{", "", line, column, _tagged(event))
            elif isinstance(event, yaml.SequenceStartEvent):
                yield Event("[", "", line, column, _tagged(event))
            elif isinstance(event, yaml.MappingEndEvent):
                yield Event("}", "", line, column)
            elif isinstance(event, yaml.SequenceEndEvent):
                yield Event("]", "", line, column)
            elif isinstance(event, yaml.AliasEvent):
                fault = f"the alias *{printable(str(event.anchor))} is not read, write the value out"
                yield Event("text", "", line, column, fault)
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise ScanError(line, column, "a second document begins, write one per file")
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text) from None


_MERGE = "merge keys are not read, write the keys out"


def _tagged(event: yaml.NodeEvent) -> str | None:
    """Refuse explicit tags."""
    tag = getattr(event, "tag", None)
    if tag is None:
        return None
    short = printable(str(tag).replace("tag:yaml.org,2002:", "!!"))
    return f"the tag {short} is not read, remove it (quotes make text)"


def _syntax_error(error: yaml.MarkedYAMLError, text: str) -> ScanError:
    """Say in plain words where YAML ends to be YAML."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return ScanError(1, 1, f"is not YAML ({error.problem}), check quotes and indentation")
    lines = text.split("\n", mark.line + 1)
    line = lines[mark.line] if mark.line < len(lines) else ""
    if line[mark.column : mark.column + 1] == "\t" or "tab" in (error.problem or ""):
        return ScanError(mark.line + 1, mark.column + 1, "a tab indents here, write spaces")
    problem = printable(error.problem or "unreadable")
    fault = f"is not YAML ({problem}), check the quotes, colons and indentation here"
    return ScanError(mark.line + 1, mark.column + 1, fault)
