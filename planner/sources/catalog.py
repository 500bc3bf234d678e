"""The sources that there are, by the type that a site file names; each is loaded when it is used."""

from __future__ import annotations

from importlib import import_module

from planner.errors import InputError
from planner.model.site import Site
from planner.sources.base import Source
from planner.words import shown

TYPES = {"slurm": "planner.sources.slurm.source"}
"""Module of each type; it has a function `source_of(site)`."""


def source_of(site: Site) -> Source:
    """Return the source of a site; InputError where it has none, or one that is not known."""
    kind = (site.source or {}).get("type")
    if kind not in TYPES:
        fault = "is missing" if kind is None else f"{shown(kind)} is not a known source"
        raise InputError([f"source.type: {fault}, write one of {', '.join(TYPES)}"])
    source: Source = import_module(TYPES[kind]).source_of(site)
    return source
