"""Every finished run as a row, and a metric over time."""
