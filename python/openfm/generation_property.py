"""One property of a schema that is put together by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .generation_guide import GenerationGuide

__all__ = ["Property"]


@dataclass
class Property:
    """A name, a type as an annotation would give it, a description, and guides.

    ``Optional[X]`` as the type makes the property one that may be missing.
    """

    name: str
    type_class: Any
    description: str | None = None
    guides: Sequence[GenerationGuide] = ()
