"""Retrieval tuning: a grid over search parameters, and what of its gains is more than luck."""
