"""Two reports held against each other: what differs, by how much, and how sure that is. Nothing here runs a case."""
