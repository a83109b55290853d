"""Whether an engine, or another part of a project's own, keeps to its protocol."""
