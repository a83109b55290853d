"""What measuring one case is made of: stores, calls in time, outputs taken or told wrong."""
