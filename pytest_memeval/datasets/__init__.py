"""Published benchmark files: LoCoMo and LongMemEval as samples of sessions and questions."""
