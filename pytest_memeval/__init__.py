"""Evaluate LLM memory systems as pytest tests."""

__version__ = "0.1.0"
