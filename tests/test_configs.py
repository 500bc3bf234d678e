"""The commented site file is what its comments promise: every key, each with its default."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from planner.model.site import Site
from planner.site import BACKENDS, load_site, schema

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
FILE = CONFIGS / "site.yaml"
TEXT = FILE.read_text(encoding="utf-8")


def test_it_is_the_default_site_but_for_its_budgets():
    site = load_site(FILE)
    assert site == Site(site.budgets)


def test_a_site_of_budgets_alone_is_the_same(tmp_path: Path):
    alone = tmp_path / "site.yaml"
    alone.write_text(yaml.safe_dump({"budgets": yaml.safe_load(TEXT)["budgets"]}))
    assert load_site(alone) == load_site(FILE)


def test_it_keeps_the_schema_that_it_names():
    named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", TEXT)
    assert named
    assert (CONFIGS / named[1]).is_file()
    jsonschema.validate(yaml.safe_load(TEXT), schema())


def keys(entry: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every key below an entry of the schema with what is said of it, inventories apart."""
    for key, value in entry.get("properties", {}).items():
        yield key, value
        if key in ("clusters", "children"):
            continue
        for kind in (value, *value.get("anyOf", [])):
            for inner in (kind, kind.get("items", {}), kind.get("additionalProperties", {})):
                if isinstance(inner, dict) and "$ref" in inner:
                    yield from keys(schema()["$defs"][inner["$ref"].rpartition("/")[2]])


def test_every_key_of_the_schema_is_in_it():
    known = {key for key, _ in keys(schema())}
    assert {"budgets", "weight", "accounts", "half_life", "lane", "charge", "reservations"} <= known
    assert {key for key in known if not re.search(rf"(?<!\w){key}:", TEXT)} == set()


def test_every_value_that_the_schema_calls_a_default_is_the_one_written():
    written = yaml.safe_load(TEXT)
    checked = 0
    for section, value in schema()["properties"].items():
        for kind in value.get("anyOf", [value]):
            if "$ref" in kind and section != "source":
                checked += compare(written[section], schema()["$defs"][kind["$ref"].rpartition("/")[2]])
    assert checked >= 14


def compare(written: dict[str, Any], entry: dict[str, Any]) -> int:
    """Compare a section with the defaults of its schema; return how many there were."""
    count = 0
    for key, value in entry["properties"].items():
        inner = [kind for kind in value.get("anyOf", [value]) if "$ref" in kind]
        if inner:
            count += compare(written[key], schema()["$defs"][inner[0]["$ref"].rpartition("/")[2]])
        elif value.get("default") not in (None, {}, []):
            assert written[key] == value["default"], key
            count += 1
    return count


def test_the_backends_it_names_are_those_that_a_site_may_name():
    (comment,) = re.findall(r"backend: auto +# (.*)", TEXT)
    assert set(comment.split(" | ")) <= set(BACKENDS)
