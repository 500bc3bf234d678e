"""Errors that say whose fault it is; each class owns its exit code."""

from __future__ import annotations


class GangplanError(Exception):
    """Base of every error that a user may see; printed without a traceback."""

    exit_code = 1


class InputError(GangplanError):
    """The input is wrong: one message for each fault found, as `file:line:col: key path: what, fix`."""

    exit_code = 2

    def __init__(self, messages: list[str]) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages


class PlanRejectedError(GangplanError):
    """A plan failed verification; nothing was applied. One message for each broken rule."""

    exit_code = 3

    def __init__(self, broken: list[str]) -> None:
        super().__init__("\n".join(broken))
        self.broken = broken


class SourceError(GangplanError):
    """The source system could not be read or applied to."""

    exit_code = 4


class LockedError(GangplanError):
    """Another round holds the lock."""

    exit_code = 75
