"""What the plugin does in pytest's hooks, a concern a module; imported when first needed."""
