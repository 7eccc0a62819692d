"""Describes pictures: the answer as it comes, then what it cost.

    python describe.py photo.jpg [more.jpg ...]

Asks the machine's default model; OPENFM_BASE_URL, or OPENFM_MODEL_PATH and OPENFM_MMPROJ_PATH, say
which one that is.
"""

import asyncio
import sys
from pathlib import Path

import openfm as fm


async def describe(paths: list[str]) -> None:
    # Each file is read and checked here; a label lets the model name the picture.
    pictures = [fm.ImageAttachment(path, label=Path(path).stem) for path in paths]
    session = fm.LanguageModelSession()

    shown = ""
    async for snapshot in session.stream_response([*pictures, "Describe the image."]):
        # A snapshot is the whole text so far: print what is new.
        print(snapshot[len(shown) :], end="", flush=True)
        shown = snapshot
    print()

    response = session.last_response
    assert response is not None
    for image in response.images:
        print(f"sent {image.label}: {image.width}x{image.height}, {image.byte_count:,} bytes")
    # None where the server does not count.
    count = (response.usage.input.total, response.usage.output.total)
    known = ["unknown" if number is None else f"{number:,}" for number in count]
    print(f"tokens: {known[0]} in, {known[1]} out")


def main() -> int:
    if len(sys.argv) < 2:
        print("usage: describe.py photo.jpg [more.jpg ...]", file=sys.stderr)
        return 2
    try:
        asyncio.run(describe(sys.argv[1:]))
    except fm.FoundationModelsError as error:
        print(f"describe.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
