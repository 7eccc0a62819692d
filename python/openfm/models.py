"""Model files for the embedded engine: fetch, list, find, remove.

::

    from openfm import models

    models.pull("smolvlm-256m")  # a known name, hf://org/repo/file.gguf, or an https:// URL
    print(models.path("smolvlm-256m"))

The newest model of the models folder is the default model of the machine. The same as ``fm model``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._ctypes_bindings import FMModelProgress, lib
from ._native import encode, offer_certificates, raise_last_error, take_json
from .errors import InvalidArgumentError

__all__ = ["InstalledModel", "KnownModel", "installed", "known", "path", "pull", "remove"]

Progress = Callable[[str, int, "int | None"], object]


@dataclass(frozen=True)
class InstalledModel:
    """A model of the models folder. What is not known of a file is None."""

    name: str
    path: Path
    projector: Path | None
    """Makes the model see pictures."""
    size: int
    """Bytes of both files."""
    source: str | None
    """What it was pulled by."""
    sha256: str | None
    is_verified: bool
    """Whether the digest was told by the server or the caller, and not only computed."""
    licence: str | None


@dataclass(frozen=True)
class KnownModel:
    """A model that can be pulled by its name alone."""

    name: str
    summary: str
    licence: str
    source: str


def pull(
    model: str,
    *,
    sha256: str | None = None,
    projector: str | None = None,
    progress: Progress | None = None,
) -> InstalledModel:
    """Fetches a model into the models folder, or goes on where an earlier pull broke off.

    Blocks; in a coroutine, ``await asyncio.to_thread(models.pull, "smolvlm-256m")``. ``progress``
    is called on this thread with the file's name, the bytes there are, and how many it will be or
    None; what it raises stops the pull. Without it, a terminal shows a line.
    """
    if progress is None and sys.stderr is not None and sys.stderr.isatty():
        progress = _show
    options = {"sha256": sha256, "mmproj": projector, "python": sys.executable or None}
    text = json.dumps({name: value for name, value in options.items() if value is not None})
    offer_certificates()
    raised: list[BaseException] = []

    def tell(file: bytes, received: int, total: int, _: Any) -> bool:
        # Comes also when nothing is new: that is when an interrupt is noticed. An exception cannot
        # pass through the library.
        try:
            if progress is not None:
                progress(os.fsdecode(file), received, None if total < 0 else total)
        except BaseException as error:
            raised.append(error)
            return False
        return not raised

    address = lib.FMModelPull(
        encode(model, "the model's name", InvalidArgumentError),
        encode(text, "the options", InvalidArgumentError),
        FMModelProgress(tell),
        None,
        None,
        None,
    )
    if progress is _show:
        print(file=sys.stderr)
    if raised:
        raise raised[0]
    if not address:
        raise_last_error()
    return _installed(take_json(address))


def installed() -> list[InstalledModel]:
    """The models of the models folder, by name."""
    return [_installed(entry) for entry in _list()["installed"]]


def known() -> list[KnownModel]:
    """The models that ``pull`` knows by name."""
    return [KnownModel(**entry) for entry in _list()["known"]]


def path(model: str) -> Path:
    """Where an installed model's file is; AssetsUnavailableError when it is not there."""
    name = encode(model, "the model's name", InvalidArgumentError)
    address = lib.FMModelCopyInstalledJSON(name, None, None)
    if not address:
        raise_last_error()
    return _installed(take_json(address)).path


def remove(model: str) -> None:
    """Removes an installed model's files."""
    if not lib.FMModelRemove(encode(model, "the model's name", InvalidArgumentError), None, None):
        raise_last_error()


def _list() -> dict[str, Any]:
    address = lib.FMModelCopyListJSON(None, None)
    if not address:
        raise_last_error()
    told: dict[str, Any] = take_json(address)
    return told


def _installed(entry: dict[str, Any]) -> InstalledModel:
    projector = entry.get("mmproj_path")
    return InstalledModel(
        name=entry["name"],
        path=Path(entry["path"]),
        projector=None if projector is None else Path(projector),
        size=entry["size"],
        source=entry.get("source"),
        sha256=entry.get("sha256"),
        is_verified=entry.get("verified", False),
        licence=entry.get("licence"),
    )


def _show(file: str, received: int, total: int | None) -> None:
    done = f"{received / 1e6:.1f}"
    of = "" if total is None else f" of {total / 1e6:.1f}"
    print(f"\r{file}  {done}{of} MB \x1b[K", end="", file=sys.stderr, flush=True)
