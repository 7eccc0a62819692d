"""The library's validator against the jsonschema package, over random schemas and documents.

They must agree on every pair. OPENFM_SOAK=1 makes many more.
"""

from __future__ import annotations

import json
import os
import random
import re
from typing import Any

import jsonschema
import openfm as fm
import pytest
from openfm._ctypes_bindings import lib
from openfm._native import Handle

ROUNDS = 60 if os.environ.get("OPENFM_SOAK") else 3
SCHEMAS = 150
DOCUMENTS = 12

STRINGS = ["", "a", "ab", "abc", "b1", "cat", "dog", "2026-01-31", "é", "😀", "a b", "x" * 12]
NUMBERS = [0, 1, -1, 2, 3, 5, 10, 0.5, 1.0, 2.5, -0.25, 1e3, 2**53, 2**53 + 1, 10**20]
NAMES = ["a", "b", "c", "name", "n1"]
PATTERNS = [
    "^a",
    "b$",
    "^[a-c]+$",
    "^.{2,3}$",
    "[0-9]",
    "^(cat|dog)$",
    "^\\d{4}-\\d\\d-\\d\\d$",
    "a|b",
    "^(?=.*b).+$",
    "^(?!a)",
    "^[^a]*$",
    "(ab?)+$",
    "\\bab\\b",
]


class Maker:
    """Makes schemas and documents; the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def some(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def bounds(self, least: int, most: int) -> tuple[int, int]:
        low, high = sorted(self.random.randint(least, most) for _ in range(2))
        return low, high

    def value(self, depth: int = 0) -> Any:
        kind = self.random.randrange(8 if depth < 3 else 5)
        if kind == 0:
            return self.random.choice([None, True, False])
        if kind in (1, 2):
            return self.random.choice(NUMBERS)
        if kind in (3, 4):
            return self.random.choice(STRINGS)
        if kind == 5:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        return {
            name: self.value(depth + 1)
            for name in self.random.sample(NAMES, self.random.randrange(4))
        }

    def schema(self, depth: int = 0) -> Any:
        kinds = ["string", "number", "integer", "array", "object", "choice", "any"]
        if depth < 3:
            kinds += ["array", "object", "object", "union", "reference"]
        kind = self.random.choice(kinds)
        schema: dict[str, Any] = {}
        if kind in ("string", "number", "integer", "array", "object"):
            if self.some(0.85):
                schema["type"] = [kind, "null"] if self.some(0.1) else kind
            getattr(self, f"add_{'number' if kind == 'integer' else kind}")(schema, depth)
        elif kind == "choice":
            if self.some():
                schema["const"] = self.value(2)
            else:
                schema["enum"] = [self.value(2) for _ in range(self.random.randint(1, 4))]
        elif kind == "union":
            word = self.random.choice(["anyOf", "oneOf", "allOf", "not", "if"])
            if word == "not":
                schema["not"] = self.schema(depth + 1)
            elif word == "if":
                schema["if"] = self.schema(depth + 1)
                schema["then"] = self.schema(depth + 1)
                if self.some():
                    schema["else"] = self.schema(depth + 1)
            else:
                count = self.random.randint(1, 3)
                schema[word] = [self.schema(depth + 1) for _ in range(count)]
        elif kind == "reference":
            schema["$ref"] = self.random.choice(["#/$defs/A", "#/$defs/B~1c"])
        elif self.some(0.2):
            return self.some()
        return schema

    def add_string(self, schema: dict[str, Any], depth: int) -> None:
        if self.some(0.3):
            schema["minLength"], schema["maxLength"] = self.bounds(0, 5)
        if self.some(0.4):
            schema["pattern"] = self.random.choice(PATTERNS)

    def add_number(self, schema: dict[str, Any], depth: int) -> None:
        low, high = self.bounds(-3, 10)
        if self.some(0.4):
            schema[self.random.choice(["minimum", "exclusiveMinimum"])] = low
        if self.some(0.4):
            schema[self.random.choice(["maximum", "exclusiveMaximum"])] = high + 0.5
        if self.some(0.2):
            schema["multipleOf"] = self.random.choice([1, 2, 5, 0.5, 0.25])

    def add_array(self, schema: dict[str, Any], depth: int) -> None:
        if self.some(0.7):
            schema["items"] = self.schema(depth + 1)
        if self.some(0.2):
            count = self.random.randint(1, 2)
            schema["prefixItems"] = [self.schema(depth + 1) for _ in range(count)]
        if self.some(0.3):
            schema["minItems"], schema["maxItems"] = self.bounds(0, 4)
        if self.some(0.2):
            schema["uniqueItems"] = True
        if self.some(0.15):
            schema["contains"] = self.schema(depth + 1)
            if self.some():
                schema["minContains"], schema["maxContains"] = self.bounds(0, 3)

    def add_object(self, schema: dict[str, Any], depth: int) -> None:
        names = self.random.sample(NAMES, self.random.randint(0, 3))
        schema["properties"] = {name: self.schema(depth + 1) for name in names}
        if self.some():
            schema["required"] = self.random.sample(NAMES, self.random.randrange(3))
        if self.some(0.3):
            schema["additionalProperties"] = self.some() or self.schema(depth + 1)
        elif self.some(0.3):
            schema["additionalProperties"] = False
        if self.some(0.15):
            schema["patternProperties"] = {"^n": self.schema(depth + 1)}
        if self.some(0.1):
            schema["propertyNames"] = {"maxLength": 2}
        if self.some(0.1):
            schema["minProperties"], schema["maxProperties"] = self.bounds(0, 4)
        if self.some(0.1):
            schema["dependentRequired"] = {"a": ["b"]}

    def root(self) -> Any:
        schema = self.schema()
        if not isinstance(schema, dict):
            return schema
        # References step into the value, as a schema that can be checked must.
        schema["$defs"] = {
            "A": {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/B~1c"}},
            },
            "B/c": {"type": ["string", "array"], "items": {"$ref": "#/$defs/A"}, "maxLength": 3},
        }
        return schema

    def document(self, schema: Any, root: Any, depth: int = 0) -> Any:
        """A value that comes near to what the schema wants."""
        if not isinstance(schema, dict) or self.some(0.1) or depth > 6:
            return self.value(depth)
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1].replace("~1", "/")
            return self.document(root["$defs"][name], root, depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        for word in ("anyOf", "oneOf", "allOf"):
            if word in schema:
                return self.document(self.random.choice(schema[word]), root, depth + 1)
        kind = schema.get("type")
        kind = self.random.choice(kind) if isinstance(kind, list) else kind
        if kind == "string":
            return self.random.choice(STRINGS)
        if kind in ("number", "integer"):
            return self.random.choice(NUMBERS)
        if kind == "array":
            count = self.random.randint(0, 3)
            return [self.document(schema.get("items", {}), root, depth + 1) for _ in range(count)]
        if kind == "object":
            names = {*schema.get("required", ()), *schema.get("properties", ())}
            names -= {name for name in sorted(names) if self.some(0.1)}
            return {
                name: self.document(schema.get("properties", {}).get(name, {}), root, depth + 1)
                for name in sorted(names)
            }
        return self.value(depth)


def accepts(schema: Handle, document: Any) -> bool:
    address = lib.FMGeneratedContentCreateFromJSONWithSchema(
        json.dumps(document).encode(), schema.address, None, None
    )
    if address:
        Handle(address).release()
        return True
    assert lib.FMLastErrorCode() == 6
    return False


@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_the_validator_agrees_with_jsonschema(round_number: int) -> None:
    maker = Maker(1000 + round_number)
    verdicts = {True: 0, False: 0}
    for _ in range(SCHEMAS):
        schema = maker.root()
        oracle = jsonschema.Draft202012Validator(schema)
        address = lib.FMGenerationSchemaCreateFromJSON(json.dumps(schema).encode(), None, None)
        assert address, (schema, lib.FMLastErrorDescription())
        with Handle(address) as ours:
            for _ in range(DOCUMENTS):
                document = maker.document(schema, schema)
                expected = oracle.is_valid(document)
                verdicts[expected] += 1
                assert accepts(ours, document) == expected, (
                    json.dumps(schema),
                    json.dumps(document),
                )
    # Neither half would show much without the other.
    assert min(verdicts.values()) > SCHEMAS


@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_patterns_match_as_those_of_python(round_number: int) -> None:
    """Where both languages mean the same: ASCII texts without line breaks."""
    maker = random.Random(2000 + round_number)

    def pattern(depth: int = 0) -> str:
        kind = maker.randrange(10 if depth < 3 else 5)
        if kind < 3:
            return maker.choice(["a", "b", "c", "1", " ", "\\.", "-"])
        if kind == 3:
            return maker.choice(["[ab]", "[^a]", "[a-c1]", "\\d", "\\w", "\\s", "\\D", "\\W", "."])
        if kind == 4:
            return maker.choice(["^", "$", "\\b", "\\B", ""])
        if kind == 5:
            return f"({pattern(depth + 1)}|{pattern(depth + 1)})"
        if kind == 6:
            inner = pattern(depth + 1)
            quantifier = maker.choice(["*", "+", "?", "{2}", "{1,2}", "{2,}", "*?", "+?"])
            return f"(?:{inner}){quantifier}"
        if kind == 7:
            look = maker.choice(["?=", "?!"])
            return f"({look}{pattern(depth + 1)})"
        if kind == 8:
            # Python looks behind by fixed widths only.
            return f"(?<{maker.choice('=!')}{maker.choice(['a', 'b1', '[ab]', 'ab'])})"
        return "".join(pattern(depth + 1) for _ in range(maker.randint(1, 4)))

    matched = 0
    for _ in range(300):
        text = pattern()
        compiled = re.compile(text)
        schema = json.dumps({"type": "string", "pattern": text}).encode()
        address = lib.FMGenerationSchemaCreateFromJSON(schema, None, None)
        assert address, (text, lib.FMLastErrorDescription())
        with Handle(address) as ours:
            for _ in range(8):
                word = "".join(maker.choice("abc1 .-") for _ in range(maker.randint(1, 7)))
                expected = compiled.search(word) is not None
                matched += expected
                assert accepts(ours, word) == expected, (text, word)
    assert 300 < matched < 2100


def test_a_mismatch_names_its_place() -> None:
    schema = fm.GenerationSchema.from_dict(
        {"properties": {"pets": {"items": {"properties": {"age": {"maximum": 3}}}}}}
    )
    text = b'{"pets":[{"age":1},{"age":9}]}'
    assert not lib.FMGeneratedContentCreateFromJSONWithSchema(text, schema._ptr, None, None)
    details = json.loads(fm._native.take_string(lib.FMLastErrorCopyDetailsJSON()) or "")
    assert details["json_path"] == "$.pets[1].age"
    assert details["raw_content"] == text.decode()
