"""``python -m fastrcaps_search``."""

import sys

from fastrcaps_search.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
