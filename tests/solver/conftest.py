"""The option that rewrites golden files: `pytest tests/solver --update-golden`."""

from __future__ import annotations

from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden LP files anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """Return a comparison of a text with the golden file of that name."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden", default=False):
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no {path.name} in golden/: run pytest tests/solver --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return compare
