"""Where things are, for every test of the house."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def library() -> Path:
    """The release library that `scripts/build` laid out."""
    path = ROOT / ".build/openfm/lib/libFoundationModels.so.1"
    assert path.exists(), "no release library; run scripts/build first"
    return path
