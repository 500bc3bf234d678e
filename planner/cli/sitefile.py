"""What a command needs of a site file beyond what every site has; what lacks is told by the file's name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from planner.errors import InputError
from planner.model.site import Site


@contextmanager
def faults_of(path: Path) -> Iterator[None]:
    """Put a site file's name before faults that name a key of it alone."""
    try:
        yield
    except InputError as error:
        raise InputError([f"{path}: {fault}" for fault in error.messages]) from None


def need_ledger(site: Site) -> str:
    """Return the URL of a site's ledger; InputError where it names none."""
    if site.ledger is None:
        raise InputError(["ledger: is missing, write `ledger: sqlite:///gangplan.db`"])
    return site.ledger
