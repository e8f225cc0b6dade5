"""`sessionctl`, also as `python -m turnlog`."""

import gc
import sys


def main() -> int | str | None:
    """Run the command line; return its exit code."""
    gc.disable()  # imports make no garbage, and looking for it takes a tenth of a short command's time
    from turnlog.cli import main as run

    gc.enable()
    return run()


if __name__ == "__main__":
    sys.exit(main())
