"""`gangplan schema`: the committed JSON Schemas."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests.planner.cli.calling import gangplan

SCHEMAS = Path(__file__).resolve().parents[3] / "configs" / "schema"


@pytest.mark.parametrize("kind", ["site", "snapshot", "plan"])
def test_it_prints_the_committed_file(kind: str):
    called = gangplan("schema", kind)
    assert (called.code, called.err) == (0, "")
    assert called.out == (SCHEMAS / f"{kind}.schema.json").read_text(encoding="utf-8")
    jsonschema.Draft202012Validator.check_schema(json.loads(called.out))
