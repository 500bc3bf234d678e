"""Frames as figures: plain dictionaries in the terms of plotly.js."""
