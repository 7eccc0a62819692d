"""``fm eval``: an evaluation from the shell, with exit codes for a CI."""

from __future__ import annotations

import argparse
import errno
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ..core import ChatCompletionsLanguageModel, LanguageModel, SystemLanguageModel
from ..errors import (
    AssetsUnavailableError,
    ConnectError,
    EngineFailedError,
    EngineNotStartedError,
    FoundationModelsError,
    TLSError,
)
from ..generation_options import GenerationOptions, SamplingMode
from ._errors import EvaluationError, UnwritableError
from ._files import check_writable
from ._markdown import summary_lines
from ._result import EvaluationResult
from ._run import evaluate
from ._scorers import contains, exact, fields_f1, label_match, numeric, regex, set_f1

__all__ = ["main"]

# As fm respond has them, and one more.
SUCCESS = 0
FAILED = 1
USAGE = 2
UNAVAILABLE = 5
BELOW = 7
INTERRUPTED = 130
UNREAD = 141

_UNAVAILABLE = tuple(
    kind.__name__
    for kind in (
        AssetsUnavailableError,
        ConnectError,
        EngineFailedError,
        EngineNotStartedError,
        TLSError,
    )
)

_SCORERS: dict[str, Any] = {
    "exact": exact,
    "contains": contains,
    "regex": regex,
    "numeric": numeric,
    "set-f1": set_f1,
    "fields-f1": fields_f1,
    "label": label_match,
}

_EPILOG = """\
Scores: NAME or NAME:FIELD, where FIELD is a member of a structured answer. NAME is exact, contains,
regex, numeric, set-f1, fields-f1 or label. Without --score, cases that have "expected" are scored
with exact, or with fields-f1 where that is an object.

Exit codes: 0 every row was answered, or the score reached --fail-under; 1 rows failed, or a file
cannot be written; 2 the command line, the cases or the schema are wrong; 5 no row was answered
because there is no model; 7 the score is below --fail-under, where rows without an answer count as
0; 130 interrupted; 141 nobody reads the output. With --out the same command goes on after an
interrupt or a crash.

Environment: as for fm respond. The default model is the server of OPENFM_BASE_URL, else the
embedded engine; the key for a server is OPENFM_API_KEY.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"fm: {message} (see fm eval --help)", file=sys.stderr)
        sys.exit(USAGE)


def _share(text: str) -> float:
    """A bound that a score can reach."""
    value = _finite(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be from 0 to 1, as scores are, not {text}")
    return value


def _finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"must be a number, not {text}")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fm eval",
        description="Asks a model about every case of a file or folder, and scores the answers.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("cases", metavar="CASES", help="a .jsonl, .csv or .tsv file, or a folder of pictures")
    add("--prompt", metavar="FILE", help="template: a file's text, with {members} of the case")
    add("--prompt-text", metavar="TEXT", help="template, given here")
    add("--instructions", metavar="FILE", help="instructions: a file's text")
    add("--schema", metavar="FILE", help="JSON Schema of the answers, or itself: {...}")
    add(
        "--score", metavar="NAME[:FIELD]", action="append", default=[], help="see below; repeatable"
    )
    add("--expected", metavar="MEMBER", default="expected", help="member with what is right")
    add("--ignore-case", action="store_true", help="in exact and regex (contains always does)")
    add("--tolerance", metavar="X", type=_finite, default=0.0, help="of numeric and fields-f1")
    add("--fail-under", metavar="SCORE", type=_share, help="exit with 7 when a score is lower")
    add("--out", metavar="FILE", help="append every row to this .jsonl, and go on from it")
    add("--cache", metavar="DIR", help="keep answers here, and use those that are there")
    add("--report", metavar="FILE", help="write an HTML report")
    add("--json", action="store_true", help="print the summary as one JSON object")
    add("--model-url", metavar="URL", help="a server to ask instead of the default model")
    add("--model", metavar="NAME", help="the model's name there")
    add("--max-concurrency", metavar="N", type=int, default=8, help="requests at once (default 8)")
    add("--timeout", metavar="S", type=_finite, help="seconds for a row")
    add("--retries", metavar="N", type=int, default=3, help="more attempts (default 3)")
    add("--patience", metavar="S", type=float, default=300.0, help="seconds of 429/503 to wait out")
    add("--temperature", metavar="T", type=_finite, help="sample by chance; else greedy")
    add("--max-tokens", metavar="N", type=int, help="longest answer")
    add("--repeat", metavar="N", type=int, default=1, help="ask each case N times")
    add("--seed", metavar="N", type=int, default=0, help="of the first repeat")
    add("--limit", metavar="N", type=int, help="only the first N cases")
    add("--quiet", action="store_true", help="no progress")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except UnwritableError as error:
        return _report(error, FAILED)
    except (EvaluationError, ValueError, TypeError) as error:
        return _report(error, USAGE)
    except FoundationModelsError as error:
        return _report(error, UNAVAILABLE if isinstance(error, AssetsUnavailableError) else FAILED)
    except OSError as error:
        return _report(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _report(error: BaseException, code: int) -> int:
    print(f"fm: {' '.join(str(error).split())}", file=sys.stderr)
    return code


def _run(options: argparse.Namespace) -> int:
    # Before a model has worked for hours on what nobody could read.
    _check_outputs(options)
    prompt = _prompt(options)
    cases: Any = options.cases
    if options.limit is not None:
        from ._cases import load_cases

        if options.limit < 1:
            raise EvaluationError(f"--limit must be at least 1, not {options.limit}")
        cases = load_cases(cases)[: options.limit]
    sampling = GenerationOptions(
        sampling=SamplingMode.random() if options.temperature else SamplingMode.greedy(),
        temperature=options.temperature,
        maximum_response_tokens=options.max_tokens,
    )
    result = evaluate(
        cases,
        prompt,
        model=_model(options),
        instructions=_text(options.instructions) if options.instructions else None,
        schema=_schema(options.schema) if options.schema else None,
        options=sampling,
        scorers=_scorers(options) or None,
        max_concurrency=options.max_concurrency,
        timeout=options.timeout,
        retries=options.retries,
        patience=options.patience,
        repeat=options.repeat,
        seed=options.seed,
        out=options.out,
        cache=options.cache,
        progress=not options.quiet,
    )
    if options.report:
        result.to_html(options.report)
    if options.json:
        text = json.dumps(_summary(result), ensure_ascii=False)
    else:
        text = "\n".join(summary_lines(result))
    return UNREAD if not _say(text) else _verdict(result, options.fail_under)


def _check_outputs(options: argparse.Namespace) -> None:
    if sys.stdout is None:
        raise _no_stdout(errno.EBADF)
    if options.report is not None:
        try:
            check_writable(Path(options.report))
        except OSError as error:
            raise UnwritableError(
                f"cannot write the report {options.report}: {error.strerror}"
            ) from None


def _say(text: str) -> bool:
    """Prints; whether somebody reads it. Raises UnwritableError."""
    try:
        print(text, flush=True)
    except OSError as error:
        # What is left in the buffer would be tried again, and told of, when Python ends.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        if isinstance(error, BrokenPipeError):
            return False
        raise _no_stdout(error.errno) from None
    return True


def _no_stdout(number: int | None) -> UnwritableError:
    reason = os.strerror(number or errno.EIO)
    return UnwritableError(f"Cannot write to stdout: {reason}. Give it a place to go.")


def _prompt(options: argparse.Namespace) -> str:
    if options.prompt is not None and options.prompt_text is not None:
        raise EvaluationError("--prompt and --prompt-text exclude each other; give one of them")
    if options.prompt is not None:
        # The line end with which editors close a file is no part of the prompt.
        return _text(options.prompt).rstrip("\n")
    if options.prompt_text is not None:
        return str(options.prompt_text)
    raise EvaluationError("what should be asked? Give --prompt FILE or --prompt-text TEXT")


def _text(path: str) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise EvaluationError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise EvaluationError(f"{path} is not UTF-8; save the file as UTF-8") from None


def _schema(given: str) -> dict[str, Any]:
    """A file's, or the schema itself, as fm respond takes it."""
    is_inline = given.lstrip().startswith("{")
    path = "--schema" if is_inline else given
    try:
        value = json.loads(given if is_inline else _text(given))
    except (ValueError, RecursionError) as error:
        if isinstance(error, EvaluationError):
            raise
        raise EvaluationError(f"{path} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise EvaluationError(f"{path} is no JSON Schema: it must be an object")
    return value


def _model(options: argparse.Namespace) -> LanguageModel:
    if options.model_url is None:
        if options.model is not None:
            raise EvaluationError(
                "--model names a model on the server of --model-url; give that too, or set "
                "OPENFM_BASE_URL and OPENFM_MODEL"
            )
        model = SystemLanguageModel()
        explanation = model.availability_message
        if explanation is not None:
            raise AssetsUnavailableError(explanation)
        return model
    return ChatCompletionsLanguageModel(
        options.model_url, options.model or "default", os.environ.get("OPENFM_API_KEY") or None
    )


def _scorers(options: argparse.Namespace) -> list[Any]:
    made = []
    for text in options.score:
        name, _, field = text.partition(":")
        make = _SCORERS.get(name)
        if make is None:
            raise EvaluationError(f"no score {name!r}; there are: {', '.join(_SCORERS)}")
        given: dict[str, Any] = {"expected": options.expected}
        if field:
            if name == "fields-f1":
                given["fields"] = tuple(field.split(","))
            else:
                given["field"] = field
        if name in ("exact", "regex"):
            given["ignore_case"] = options.ignore_case
        if name in ("numeric", "fields-f1"):
            given["tolerance"] = options.tolerance
        made.append(make(**given))
    return made


def _summary(result: EvaluationResult) -> dict[str, Any]:
    scores = {}
    for name, aggregate in result.aggregates.items():
        interval = aggregate.interval
        scores[name] = {
            "count": aggregate.count,
            "mean": aggregate.mean,
            "interval": None if interval is None else [interval.low, interval.high],
            "mean_with_failures": aggregate.mean_with_failures,
        }
    return {
        "rows": len(result),
        "failed": len(result.failed),
        "scores": scores,
        "errors": {kind: len(rows) for kind, rows in result.errors.items()},
        "tokens": vars(result.tokens),
        "model": result.run["model"],
        "prompt_sha256": result.run["prompt_sha256"],
    }


def _verdict(result: EvaluationResult, fail_under: float | None) -> int:
    if not result.answered and set(result.errors) <= set(_UNAVAILABLE):
        return UNAVAILABLE
    if fail_under is None:
        return FAILED if result.failed else SUCCESS
    if not result.scorers:
        raise EvaluationError(
            'there is no score for --fail-under: give --score, or "expected" in the cases'
        )
    low = []
    for aggregate in result.aggregates.values():
        value = aggregate.mean_with_failures
        if value is None or value < fail_under:
            low.append(f"{aggregate.name} is {'unknown' if value is None else f'{value:.4g}'}")
    if low:
        print(f"fm: below --fail-under {fail_under:g}: {', '.join(low)}", file=sys.stderr)
        return BELOW
    return SUCCESS
