"""The Python part of scripts/demo: stream an answer about a photo, then the same without its tag.

    python scripts/demo.py TAGGED.jpg UNTAGGED.jpg PHOTO.jpg

Ends with an error when the model does not say which way the arrow points.
"""

import asyncio
import sys
import time

import openfm as fm

DESCRIBE = "Describe the image."
DIRECTION = "Which way does the arrow point? Answer with one word."
SCHEMA = {
    "title": "Arrow",
    "type": "object",
    "properties": {
        "direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
    },
    "required": ["direction"],
    "additionalProperties": False,
}
OPTIONS = fm.GenerationOptions(sampling=fm.SamplingMode.greedy(), maximum_response_tokens=60)


def report(session: fm.LanguageModelSession, seconds: float) -> None:
    response = session.last_response
    assert response is not None
    for image in response.images:
        print(
            f"  sent    {image.original_width}x{image.original_height} -> "
            f"{image.width}x{image.height} {image.mime_type}, {image.byte_count:,} bytes, "
            f"{image.action}"
        )
    usage = response.usage
    print(f"  tokens  {usage.input.total} in, {usage.output.total} out; {seconds:.2f} s")


async def describe(picture: str) -> str:
    session = fm.LanguageModelSession()
    print(f"  prompt  {DESCRIBE}  [{picture}]")
    print("  answer  ", end="", flush=True)
    start = time.perf_counter()
    text = ""
    async for snapshot in session.stream_response(
        [fm.ImageAttachment(picture), DESCRIBE], options=OPTIONS
    ):
        print(snapshot[len(text) :], end="", flush=True)
        text = snapshot
    print()
    report(session, time.perf_counter() - start)
    return text


async def direction(picture: str) -> str:
    session = fm.LanguageModelSession()
    print(f"  prompt  {DIRECTION}  [{picture}]")
    start = time.perf_counter()
    content = await session.respond(
        [fm.ImageAttachment(picture), DIRECTION], json_schema=SCHEMA, options=OPTIONS
    )
    print(f"  answer  {content.to_json()}")
    report(session, time.perf_counter() - start)
    return str(content.value(str, for_property="direction"))


def expect(seen: str, wanted: str) -> None:
    if wanted not in seen:
        sys.exit(f"demo: the answer {seen!r} is not the expected {wanted!r}")


async def main(tagged: str, untagged: str, photo: str) -> None:
    info = fm.inspect_image(tagged)
    print(
        f"The photo is stored as {info.stored_width}x{info.stored_height} with orientation "
        f"{info.orientation}; a viewer shows it upright, with an arrow that points up."
    )
    expect(await describe(tagged), "up")
    expect(await direction(tagged), "up")
    print("The same scan data without the orientation tag:")
    expect(await direction(untagged), "left")

    print("A real photo. The test model only knows shapes; this is what any model would be sent:")
    for orientation in (None, 1):
        source = fm.inspect_image(photo, orientation)
        prepared = fm.prepare_image(photo, orientation=orientation)
        print(
            f"  {'its own tag' if orientation is None else 'tag ignored'}: "
            f"{source.width}x{source.height}, {source.byte_count:,} bytes -> "
            f"{prepared.width}x{prepared.height}, {len(prepared.data):,} bytes"
        )


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: demo.py TAGGED.jpg UNTAGGED.jpg PHOTO.jpg")
    asyncio.run(main(*sys.argv[1:]))
