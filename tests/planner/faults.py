"""How tests look at refusals: every line has its place, and says what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from planner.errors import InputError

LINE = re.compile(r"[^:]+:\d+:\d+: [^\n]+")


def refusal(read: Callable[..., Any], *args: Any) -> list[str]:
    """Return the messages of a refusal, each checked for its form."""
    with pytest.raises(InputError) as caught:
        read(*args)
    assert_lines(caught.value.messages)
    return caught.value.messages


def assert_lines(messages: list[str]) -> None:
    """Check that there are messages, and that each is one line that begins with its place."""
    assert messages
    for message in messages:
        assert LINE.fullmatch(message), message


def assert_explained(schema: dict[str, Any]) -> None:
    """Check that a JSON Schema says of every key what it is, there or where it refers to."""
    for name, entry in [("file", schema), *schema["$defs"].items()]:
        for key, value in entry["properties"].items():
            kinds = [value, *value.get("anyOf", [])]
            kinds += [schema["$defs"][k["$ref"].rpartition("/")[2]] for k in kinds if "$ref" in k]
            assert any(kind.get("description") for kind in kinds), f"{name}.{key}"


def places(messages: list[str]) -> list[tuple[int, str]]:
    """Return line and key path of each message."""
    found = []
    for message in messages:
        _, line, _, rest = message.split(":", 3)
        found.append((int(line), rest.split(":")[0].strip()))
    return found
