"""Hypothesis without deadlines and without luck: the same examples on every run."""

from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci")
