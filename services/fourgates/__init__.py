"""Fourgates: four gates between a model's suggested tool call and the world."""

__version__ = "0.1.0"
