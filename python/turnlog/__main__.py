"""`python -m turnlog` is `sessionctl`."""

import sys

from turnlog.cli import main

if __name__ == "__main__":
    sys.exit(main())
