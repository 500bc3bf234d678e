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
    messages = caught.value.messages
    assert messages
    for message in messages:
        assert LINE.fullmatch(message), message
    return messages


def places(messages: list[str]) -> list[tuple[int, str]]:
    """Return line and key path of each message."""
    found = []
    for message in messages:
        _, line, _, rest = message.split(":", 3)
        found.append((int(line), rest.split(":")[0].strip()))
    return found
