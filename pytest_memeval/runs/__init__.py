"""What a run comes to: records collected, reports and files written."""
