"""Rows a second over 12-megapixel photos: `evaluate`, and the same loop written with the openai
client and Pillow, at 64 requests at once, on the same server.

The server is a process of one thread that parses no body. Every photo is another one: both prepare
each (upright, long edge 1568, JPEG quality 85). Pillow decodes at a reduced size where it can
(`draft`) and runs in a thread pool, as a careful loop would have it. With `--plain` there is
also the loop that most write: full size, on the event loop. `--photos 2000 --repeats 1` is the long
form: 7 GB of pictures, some minutes. Ours tells the memory that it took too.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import resource
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "Tests/server"))

import openai
import openfm as fm
from counting_server import CountingServer
from harness import alternate, report
from openfm.evaluation import Progress
from PIL import Image, ImageOps
from prepare_photo import EDGE, QUALITY, make_photo, with_pillow

CONCURRENCY = 64


def plainly(path: Path) -> bytes:
    with Image.open(path) as image:
        upright = ImageOps.exif_transpose(image)
        upright.thumbnail((EDGE, EDGE), Image.Resampling.LANCZOS)
        out = io.BytesIO()
        upright.convert("RGB").save(out, "JPEG", quality=QUALITY)
    return out.getvalue()


async def loop(base_url: str, photos: list[Path], careful: bool) -> list[str]:
    client = openai.AsyncOpenAI(base_url=f"{base_url}/v1", api_key="none", max_retries=0)
    places = asyncio.Semaphore(CONCURRENCY)

    async def ask(index: int, path: Path) -> str:
        async with places:
            if careful:
                data = await asyncio.to_thread(with_pillow, path)
            else:
                data = plainly(path)
            url = "data:image/jpeg;base64," + base64.b64encode(data).decode()
            answer = await client.chat.completions.create(
                model="m",
                temperature=0,
                messages=[
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": url}},
                            {"type": "text", "text": f"<<{index}>>"},
                        ],
                    }
                ],
            )
            return answer.choices[0].message.content or ""

    async with client:
        return await asyncio.gather(*(ask(index, path) for index, path in enumerate(photos)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--photos", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--plain", action="store_true", help="the peer without draft and threads")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, CountingServer() as server:
        first = Path(folder, "photo.jpg")
        make_photo(first)
        original = first.read_bytes()
        photos = [Path(folder, f"{index}.jpg") for index in range(options.photos)]
        rounds = iter(range(1 << 30))
        resident: list[tuple[int, int]] = []

        def note(progress: Progress) -> None:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            resident.append((progress.done, pages * resource.getpagesize()))

        def fresh() -> None:
            # Ours remembers what it prepared; a byte that is never read makes each file a new one.
            round_number = next(rounds)
            for index, path in enumerate(photos):
                mark = (round_number * len(photos) + index).to_bytes(8, "big")
                if round_number:
                    with path.open("r+b") as file:
                        file.seek(len(original))
                        file.write(mark)
                else:
                    path.write_bytes(original + mark)

        model = fm.ChatCompletionsLanguageModel(
            server.base_url, "m", context_size=4096, supports_images=True
        )

        def ours() -> None:
            fresh()
            cases = [{"image": str(path), "id": index} for index, path in enumerate(photos)]
            result = fm.evaluate(
                cases, "{image}<<{id}>>", model=model, max_concurrency=CONCURRENCY, progress=note
            )
            assert not result.failed, result.errors
            assert [row.answer for row in result] == wanted

        def theirs(careful: bool) -> Callable[[], None]:
            def run() -> None:
                fresh()
                assert asyncio.run(loop(server.base_url, photos, careful)) == wanted

            return run

        tasks: dict[str, Callable[[], None]] = {
            "openfm": ours,
            "openai, Pillow with draft": theirs(True),
        }
        if options.plain:
            tasks["openai, Pillow plainly"] = theirs(False)
        wanted = [f"answer {index}" for index in range(len(photos))]
        # Files, server and both clients, once each.
        fresh()
        seconds = alternate(tasks, repeats=options.repeats, warm_up=int(options.photos <= 64))
        print(f"{len(photos)} photos of {len(original):,} bytes, {CONCURRENCY} at once")
        if options.repeats > 1:
            report(seconds, "openfm", unit="s ", scale=1)
        early = next(size for done, size in resident if done >= len(photos) * 2 // 5)
        print(
            f"resident memory of ours: {early / 2**20:.0f} MiB after two fifths of the rows, "
            f"{resident[-1][1] / 2**20:.0f} MiB at the end"
        )
        for name, values in seconds.items():
            rate = len(photos) / statistics.median(values)
            ratio = statistics.median(values) / statistics.median(seconds["openfm"])
            print(f"{name:28} {rate:6.1f} rows/s  {ratio:5.2f} x the time of ours")


if __name__ == "__main__":
    main()
