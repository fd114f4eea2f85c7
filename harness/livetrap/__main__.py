"""`python -m livetrap`, the same as `livetrap`."""

import sys

from livetrap.cli import main

if __name__ == "__main__":
    sys.exit(main())
