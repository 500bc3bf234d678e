"""Seeded inputs, reference models and measurements; nothing here is part of the product."""
