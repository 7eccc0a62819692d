"""Runs code that was written for the reference SDK.

::

    python -m openfm.compat script.py ARGUMENTS     # or: -m MODULE ARGUMENTS

In a program: ``openfm.install_as_apple_fm_sdk()`` before the first ``import apple_fm_sdk``.
"""

from __future__ import annotations

import importlib
import importlib.util
import runpy
import sys
from pathlib import Path
from typing import Final

__all__ = ["install_as_apple_fm_sdk"]

_NAME: Final = "apple_fm_sdk"
# The reference's modules, each under the same name here.
_MODULES: Final = (
    "core",
    "session",
    "prompt",
    "transcript",
    "errors",
    "generable",
    "generable_utils",
    "generation_guide",
    "generation_options",
    "generation_property",
    "generation_schema",
    "tool",
    "type_conversion",
)


def install_as_apple_fm_sdk() -> None:
    """Makes ``import apple_fm_sdk``, and its modules, give this package. Again: nothing.

    RuntimeError when another package of that name has been imported already.
    """
    package = sys.modules[__package__ or "openfm"]
    known = sys.modules.setdefault(_NAME, package)
    if known is not package:
        raise RuntimeError(
            f"{_NAME} was imported before, from {getattr(known, '__file__', 'elsewhere')}; call "
            "install_as_apple_fm_sdk() before its first import"
        )
    # One object under both names: an isinstance check must not depend on which was imported.
    for name in _MODULES:
        if importlib.util.find_spec(f"{package.__name__}.{name}") is not None:
            module = importlib.import_module(f"{package.__name__}.{name}")
            sys.modules[f"{_NAME}.{name}"] = module


def main(arguments: list[str]) -> int:
    """The command: runs a script or a module as ``python`` would. Gives the exit code."""
    runs_module = arguments[:1] == ["-m"]
    rest = arguments[1:] if runs_module else arguments
    if not rest or rest[0] in ("-h", "--help"):
        print(__doc__, file=sys.stderr)
        return 0 if rest else 2
    install_as_apple_fm_sdk()
    if runs_module:
        sys.argv = rest
        sys.path.insert(0, "")
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return 0
    script = Path(rest[0])
    if not script.is_file():
        print(f"openfm.compat: there is no file {script}", file=sys.stderr)
        return 2
    sys.argv = rest
    sys.path.insert(0, str(script.resolve().parent))
    runpy.run_path(str(script), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
