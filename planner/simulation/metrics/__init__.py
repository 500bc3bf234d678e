"""Figures of a simulation, each by the definition in docs/metrics.md, exact until the last division."""
