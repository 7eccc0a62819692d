"""What can be wrong with an evaluation itself, as opposed to one of its rows."""

from __future__ import annotations

from ..errors import InvalidArgumentError

__all__ = ["EvaluationError", "RowTimeoutError"]


class EvaluationError(InvalidArgumentError):
    """The cases, the prompt, the scorers or a file of an evaluation are not what they must be.

    Raised before anything is sent where it concerns the whole run; a row that alone is wrong keeps
    it as that row's error. Also a ValueError.
    """


class UnwritableError(EvaluationError):
    """A file or folder that the evaluation was told to write cannot be written."""


class RowTimeoutError(EvaluationError, TimeoutError):
    """A row took longer than the ``timeout`` of the evaluation; its request was stopped."""
