"""The console command ``memeval``: a module a command."""
