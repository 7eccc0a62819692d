"""What a Python program does with the wheel alone: one answer about a picture.

python hello.py URL PICTURE
"""

import asyncio
import sys

import openfm as fm


async def main(url: str, picture: str) -> None:
    model = fm.ChatCompletionsLanguageModel(url, "any", supports_images=True)
    session = fm.LanguageModelSession(model=model)
    try:
        print("success:", await session.respond([fm.ImageAttachment(picture), "What is this?"]))
    except fm.FoundationModelsError as error:
        print(f"{type(error).__name__}: {error}")


asyncio.run(main(*sys.argv[1:]))
