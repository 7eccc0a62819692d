"""What guided generation costs beside the model: making a schema, and decoding a large answer.

Schema: from a class to the JSON text that is sent, but for what its fields say, which is found out
once a class; pydantic makes that of the same class. Answer: 1 MB of JSON by that schema, parsed and
checked by the library; as the Python object, as `respond` makes it of a checked answer; the same of
a text that nobody checked. `json.loads` parses it without a check.
"""

from __future__ import annotations

import json
import random

import openfm as fm
import pydantic
from harness import alternate, report
from openfm._ctypes_bindings import lib
from openfm._guided import guide_of
from openfm._native import Handle


@fm.generable("A street address")
class Address:
    street: str = fm.guide("street and number")
    city: str
    code: str = fm.guide("postal code", regex="^[0-9]{5}$")
    country: str = fm.guide(anyOf=["DE", "FR", "IT", "US"])


@fm.generable("Somebody who buys")
class Customer:
    name: str = fm.guide("full name")
    age: int = fm.guide("in years", range=(18, 120))
    addresses: list[Address] = fm.guide("at least one", min_items=1, max_items=4)
    premium: bool
    referrer: Customer | None


@fm.generable("One line of an order")
class Line:
    article: str = fm.guide("what is bought")
    count: int = fm.guide(minimum=1, maximum=1000)
    price: float = fm.guide("in euros", minimum=0.0)
    tags: list[str] = fm.guide(max_items=8)
    note: str | None


@fm.generable("An order of a shop")
class Order:
    number: str = fm.guide("the order's number", regex="^[A-Z]{2}-[0-9]{6}$")
    customer: Customer
    lines: list[Line] = fm.guide("what is in it", min_items=1)
    status: str = fm.guide(anyOf=["new", "paid", "sent", "done"])
    total: float = fm.guide(minimum=0.0)


class PAddress(pydantic.BaseModel):
    street: str = pydantic.Field(description="street and number")
    city: str
    code: str = pydantic.Field(description="postal code", pattern="^[0-9]{5}$")
    country: str


class PCustomer(pydantic.BaseModel):
    name: str = pydantic.Field(description="full name")
    age: int = pydantic.Field(description="in years", ge=18, le=120)
    addresses: list[PAddress] = pydantic.Field(min_length=1, max_length=4)
    premium: bool
    referrer: PCustomer | None = None


class PLine(pydantic.BaseModel):
    article: str = pydantic.Field(description="what is bought")
    count: int = pydantic.Field(ge=1, le=1000)
    price: float = pydantic.Field(description="in euros", ge=0)
    tags: list[str] = pydantic.Field(max_length=8)
    note: str | None = None


class POrder(pydantic.BaseModel):
    number: str = pydantic.Field(pattern="^[A-Z]{2}-[0-9]{6}$")
    customer: PCustomer
    lines: list[PLine] = pydantic.Field(min_length=1)
    status: str
    total: float = pydantic.Field(ge=0)


def large_order(size: int) -> str:
    maker = random.Random(1)
    words = ["lamp", "Stuhl", "déjà", "table", "blue", "large", "☃", "spare part"]

    def text(count: int) -> str:
        return " ".join(maker.choice(words) for _ in range(count))

    lines: list[dict[str, object]] = []
    order = {
        "number": "AB-123456",
        "customer": {
            "name": text(2),
            "age": 40,
            "addresses": [{"street": text(3), "city": "Rome", "code": "12345", "country": "IT"}],
            "premium": True,
        },
        "lines": lines,
        "status": "paid",
        "total": 12.5,
    }
    while len(lines) * 220 < size:
        lines.append(
            {
                "article": text(6),
                "count": maker.randint(1, 1000),
                "price": maker.randint(1, 10**6) / 100,
                "tags": [text(1) for _ in range(4)],
                "note": text(8),
            }
        )
    return json.dumps(order, ensure_ascii=False)


def main() -> None:
    print("a schema, from the class to its JSON text")
    times = 50
    seconds = alternate(
        {
            "openfm": lambda: [fm.GenerationSchema(Order)._json() for _ in range(times)],
            "pydantic": lambda: [
                json.dumps(POrder.model_json_schema(mode="validation")) for _ in range(times)
            ],
        },
        repeats=20,
    )
    each = {name: [value / times for value in values] for name, values in seconds.items()}
    report(each, "openfm", unit="us", scale=1e6)

    text = large_order(1 << 20)
    data = text.encode()
    print(f"an answer of {len(data) / 1e6:.2f} MB")
    schema = fm.GenerationSchema(Order)
    pointer = schema._ptr

    guide = guide_of(Order, None, None)
    assert guide is not None

    def decode() -> None:
        created = lib.FMGeneratedContentCreateFromJSONWithSchema(data, pointer, None, None)
        Handle(created).release()

    seconds = alternate(
        {
            "json.loads": lambda: json.loads(text),
            "parsed and checked": decode,
            "to a Python object": lambda: guide.read(text),
            "the same, unchecked": lambda: Order._from_generated_content(
                fm.GeneratedContent.from_json(text)
            ),
            "pydantic": lambda: POrder.model_validate_json(data),
        },
        repeats=20,
    )
    report(seconds, "json.loads")


main()
