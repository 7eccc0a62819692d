"""What every call into the library needs: owned references, strings, errors, the process's end."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from ._ctypes_bindings import lib
from .errors import FoundationModelsError, UsedAfterForkError, error_for

__all__ = [
    "Handle",
    "build_info",
    "check_not_forked",
    "debug_live_objects",
    "encode",
    "is_exiting",
    "last_error",
    "offer_certificates",
    "process_generation",
    "raise_last_error",
    "take_json",
    "take_string",
]

_Self = TypeVar("_Self", bound="Handle")

# Counts the forks that lead to this process: a reference taken before one belongs to the parent.
_generation = 0


def _after_fork() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_after_fork)
# Set when the interpreter ends: nobody is told any more how a request went.
_is_exiting = False


@atexit.register
def _shut_down() -> None:
    """Before the interpreter is torn down: cancels what runs and ends the engines.

    A daemon thread goes on meanwhile. It is not told of the cancellations: its traceback would be
    the last word of a program that ended well.
    """
    global _is_exiting
    _is_exiting = True
    lib.FMShutdown()


def is_exiting() -> bool:
    """Whether the interpreter is ending and the library was told to stop."""
    return _is_exiting


def process_generation() -> int:
    """A number that is another one in a forked child."""
    return _generation


def check_not_forked(generation: int) -> None:
    """Raises UsedAfterForkError for something that was made before a fork."""
    if generation != _generation:
        raise UsedAfterForkError(
            "this object was made before fork() and cannot be used in the child process; start "
            "children with the 'spawn' or 'forkserver' method of multiprocessing, or make models "
            "and sessions in the child only"
        )


class Handle:
    """Owns one reference of the library and releases it exactly once.

    As a context manager it releases at the end of the block, else when it is collected.
    """

    __slots__ = ("__weakref__", "_address", "_generation")

    def __init__(self, address: int | None) -> None:
        """Takes ownership of a +1 reference; a NULL raises the library's last error."""
        self._address = address
        self._generation = _generation
        if not address:
            raise_last_error()

    @property
    def address(self) -> int:
        """The reference, for a call that borrows it."""
        if self._generation != _generation:
            check_not_forked(self._generation)
        if self._address is None:
            raise ValueError("this reference was released already")
        return self._address

    @property
    def is_foreign(self) -> bool:
        """Whether it was made before a fork, and so belongs to the parent process."""
        return self._generation != _generation

    @property
    def is_released(self) -> bool:
        return self._address is None

    def release(self, _release: Any = lib.FMRelease) -> None:
        """Gives the reference back. Again: nothing."""
        address, self._address = self._address, None
        if address and self._generation == _generation:
            _release(address)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "models, sessions and responses belong to the process they were made in: they cannot "
            "be pickled or copied"
        )


def last_error() -> FoundationModelsError:
    """The failure of the last call on this thread.

    The functions are called without error parameters, because only then the library keeps the
    failure's details beside its code and text.
    """
    code: int = lib.FMLastErrorCode()
    text: bytes | None = lib.FMLastErrorDescription()
    details = take_json(lib.FMLastErrorCopyDetailsJSON()) or {}
    message = text.decode("utf-8", "replace") if text else f"the call failed with status {code}"
    details.pop("message", None)
    return error_for(code, message, details)


def raise_last_error() -> NoReturn:
    raise last_error()


def take_string(address: int | None) -> str | None:
    """Copies and frees a string that the library returned."""
    if not address:
        return None
    try:
        return ctypes.string_at(address).decode("utf-8", "replace")
    finally:
        lib.FMFreeString(address)


def take_json(address: int | None) -> Any:
    """Copies, frees and parses a JSON text that the library returned; None for NULL."""
    text = take_string(address)
    return None if text is None else json.loads(text)


_certificates_offered = False


def offer_certificates() -> None:
    """Tells the library once where certifi's certificates are, without loading that package.

    They are used where the system has none. At the first model and not at import, since it searches
    the path.
    """
    global _certificates_offered
    if _certificates_offered:
        return
    _certificates_offered = True
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("certifi")
    if spec is not None and spec.origin is not None:
        file = os.path.join(os.path.dirname(spec.origin), "cacert.pem")  # noqa: PTH118, PTH120
        lib.FMSetDefaultCertificateFile(os.fsencode(file), None, None)


def build_info() -> dict[str, Any]:
    """How the library was built: its version, what is linked in, and the picture formats: those
    that can be read here and those that cannot, with what to install."""
    # Late: it is the only use here, and that module needs the bindings too.
    from ._heif import offer_libraries

    offer_libraries()
    info: dict[str, Any] = take_json(lib.FMCopyBuildInfoJSON())
    return info


def debug_live_objects(kind: int = 0) -> int:
    """How many objects of the library are alive: all, or those of one ``FMObjectKind``."""
    count: int = lib.FMDebugLiveObjects(kind)
    return count


def encode(
    text: str,
    what: str,
    error: type[FoundationModelsError],
    remedy: str = (
        "decode the text properly, or replace it with text.encode('utf-8', 'replace').decode()"
    ),
) -> bytes:
    """The text in UTF-8; ``error`` where C could not take it whole. ``remedy``: what to do about
    what is no character."""
    position = text.find("\0")
    if position >= 0:
        raise error(
            f"{what} holds a NUL character (at index {position}), where a C string ends; remove it"
        )
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as failure:
        raise error(
            f"{what} holds half of a surrogate pair, {text[failure.start]!r} at index "
            f"{failure.start}, which is no character; {remedy}"
        ) from None
