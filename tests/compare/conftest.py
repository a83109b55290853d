import sys
from pathlib import Path

# The samples of reports serve comparisons too.
sys.path.insert(0, str(Path(__file__).parents[1]))
