"""Judging answers: modes, verdicts, refusals, and how far the judge itself can be trusted."""
