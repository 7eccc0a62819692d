"""Where libheif is found when the system has none: in the package pi-heif."""

from __future__ import annotations

import functools
import glob
import os
import sys

from ._ctypes_bindings import lib


@functools.cache
def offer_libraries() -> None:
    """Tells the library of what pi-heif carries, by full path; imports and opens nothing."""
    for folder in sys.path:
        pattern = os.path.join(glob.escape(folder or os.curdir), "pi_heif.libs", "libheif-*.so*")
        for path in glob.glob(pattern):
            lib.FMImageOfferHEIFLibrary(os.fsencode(os.path.abspath(path)), None, None)
