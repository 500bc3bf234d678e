"""Figures, tables and sentences as pages."""
