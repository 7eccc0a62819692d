"""Writing a file whole or not at all, without taking away what its name stands for."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["check_writable", "is_replaceable", "writing"]


def is_replaceable(path: Path) -> bool:
    """Whether there is a regular file under that name, also through links, or nothing yet.

    Raises OSError where that cannot be found out.
    """
    status = _status(path)
    return status is None or stat.S_ISREG(status.st_mode)


def check_writable(path: Path) -> None:
    """Raises OSError where ``writing`` could not begin. Changes nothing, and opens nothing: a pipe
    would wait for its reader."""
    replaces = is_replaceable(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    needed = Path(os.path.realpath(path)).parent if replaces else path
    if not needed.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(needed))
    if replaces and not needed.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(needed))
    if not os.access(needed, os.W_OK | (os.X_OK if replaces else 0)):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(needed))


@contextlib.contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file to write the new contents of ``path`` to; they are there when the block ends, and
    where it raises, the old ones still are.

    The name keeps what it is: a symbolic link stays one, and the file that it leads to is written,
    which keeps its permissions. What is no regular file - a pipe, a terminal, /dev/null - cannot be
    replaced, and is written into as the pieces come. The file is open for appending, and can be
    kept with os.dup(). Raises OSError.
    """
    status = _status(path)
    # What path leads to by its own name; /dev/stdout leads to files that may have none.
    target = Path(os.path.realpath(path))
    if status is not None and not (
        stat.S_ISREG(status.st_mode) and _is_same(target, status) and status.st_nlink > 0
    ):
        flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY
        if stat.S_ISREG(status.st_mode):
            flags |= os.O_TRUNC
        with open(os.open(path, flags), "wb") as file:
            yield file
        return
    descriptor, new = _beside(target)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            if status is not None:
                # Where the file is somebody else's, or the file system knows neither, the new one
                # is as good as can be.
                with contextlib.suppress(OSError):
                    os.fchown(descriptor, status.st_uid, status.st_gid)
                with contextlib.suppress(OSError):
                    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
            # Else a power cut could leave the new name with nothing in it.
            os.fsync(descriptor)
            os.replace(new, target)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def _status(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_same(path: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), status)
    except OSError:
        return False


def _beside(target: Path) -> tuple[int, Path]:
    """A new file in the folder of the target, open for appending, with the permissions that any new
    file gets."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
    while True:
        # Short enough for any file system, whatever the target is called.
        new = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}.new")
        with contextlib.suppress(FileExistsError):
            return os.open(new, flags, 0o666), new
