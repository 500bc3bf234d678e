"""YAML as our reader reads it: text that it would take for a number or a truth value stands in quotes."""

from __future__ import annotations

from typing import Any

import yaml

from planner.scan import resolve


class Dumper(yaml.SafeDumper):
    """Writes in quotes what our reader takes for a number, which PyYAML's own does not: `6214e9`."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, None if resolve(text) == text else '"')


Dumper.add_representer(str, _text)


def to_yaml(data: Any, dumper: type[yaml.SafeDumper] = Dumper, **how: Any) -> str:
    """Return plain data as YAML in its own order; `how` are the options of `yaml.dump`."""
    text: str = yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, **how)
    return text
