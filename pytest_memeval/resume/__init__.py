"""Going on with a run that ended early."""
