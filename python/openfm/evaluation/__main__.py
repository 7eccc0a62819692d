"""The command ``fm eval``, also ``python3 -m openfm.evaluation``."""

from __future__ import annotations

import sys

from ._command import main

if __name__ == "__main__":
    sys.exit(main())
