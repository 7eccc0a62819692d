"""Answers kept from run to run, in a directory that the caller names."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._errors import EvaluationError
from ._files import is_replaceable, writing

__all__ = ["Cache"]


@dataclass(frozen=True)
class Cache:
    """A directory of answers: ``evaluate(..., cache="answers")``, or with more to say
    ``cache=Cache("answers", read=False)``, which asks everything anew and keeps the new answers.

    An answer is found again by all that it depends on: model, server, options with the seed,
    instructions, the prompt's text, each picture's bytes, schema, tools. Errors are never kept.
    ``only``, a function of a case, decides case by case whether the cache is used. One JSON file an
    answer, which ``jq`` reads; deleting files forgets them. Nothing of it is held in memory.
    """

    directory: str | os.PathLike[str]
    read: bool = True
    write: bool = True
    only: Callable[[Any], bool] | None = None

    def prepare(self) -> None:
        """Makes the directory. Raises EvaluationError."""
        try:
            Path(self.directory).mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise EvaluationError(
                f"the cache {os.fspath(self.directory)} is a file and no directory; name another "
                "one"
            ) from None
        except OSError as error:
            raise EvaluationError(
                f"cannot make the cache directory {os.fspath(self.directory)}: {error.strerror}"
            ) from None

    def applies_to(self, source: Any) -> bool:
        return self.only is None or bool(self.only(source))

    def get(self, key: str) -> Mapping[str, Any] | None:
        """The answer kept under the key; None where there is none that can be read."""
        if not self.read:
            return None
        path = self._path(key)
        try:
            # A pipe would be waited for.
            if not is_replaceable(path):
                return None
            value = json.loads(path.read_bytes())
            answer = value["answer"] if value["key"] == key else None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return answer if isinstance(answer, dict) else None

    def put(self, key: str, request: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Keeps an answer, whole or not at all. Raises EvaluationError."""
        if not self.write:
            return
        path = self._path(key)
        text = json.dumps(
            {"key": key, "request": request, "answer": answer}, ensure_ascii=False, indent=1
        )
        try:
            path.parent.mkdir(exist_ok=True)
            if not is_replaceable(path):
                raise EvaluationError(
                    f"cannot keep an answer in {path}: it is no regular file; remove it"
                )
            with writing(path) as file:
                file.write(text.encode("utf-8", "replace") + b"\n")
        except OSError as error:
            raise EvaluationError(f"cannot keep an answer in {path}: {error.strerror}") from None

    def _path(self, key: str) -> Path:
        return Path(self.directory, key[:2], f"{key}.json")
