"""How alike a reply and its truth are as texts: the metrics of question answering that need no model."""
