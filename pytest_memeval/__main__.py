"""``python -m pytest_memeval`` is the console command ``memeval``."""

import sys

from pytest_memeval.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
