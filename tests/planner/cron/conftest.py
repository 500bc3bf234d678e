"""Databases for rounds: those of the ledger's own tests."""

from tests.planner.ledger.conftest import postgresql, postgresql_url

__all__ = ["postgresql", "postgresql_url"]
