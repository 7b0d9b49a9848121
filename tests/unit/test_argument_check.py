"""Gate 1: from raw argument text to normalised arguments."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from fourgates.catalog import Catalog, Tool, ToolContext, WorkspacePath
from fourgates.catalog.formats import is_workspace_path
from fourgates.catalog.schema import compile_schema
from fourgates.contract.canonical import canonical
from fourgates.contract.codes import Code
from fourgates.contract.parts import Risk
from fourgates.gates.format import ArgumentCheck
from fourgates.gates.refusal import Refusal


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Line(Strict):
    sku: str = Field(max_length=20, pattern="^[A-Z]+$")
    count: int = Field(default=1, ge=1, le=99)


class Order(Strict):
    order_id: str = Field(max_length=20)
    amount: float = Field(gt=0, le=1000)
    mode: Literal["fast", "slow"] = "slow"
    lines: list[Line] = Field(default=[], max_length=3)
    note: Annotated[str, StringConstraints(strip_whitespace=True, max_length=50)] | None = None
    path: WorkspacePath | None = None


def tool_of(model: type[BaseModel]) -> Tool:
    def act(args: Any, ctx: ToolContext) -> None: ...

    act.__annotations__["args"] = model
    catalog = Catalog("test")
    catalog.tool(risk="read", timeout=1, description="Test.")(act)
    return next(iter(catalog))


def tool_with(schema: dict[str, Any]) -> Tool:
    catalog = Catalog("test")
    catalog.add(
        Tool(
            name="t",
            description="Test.",
            risk=Risk.READ,
            schema=schema,
            model=None,
            run=lambda a, c: None,
            timeout=dt.timedelta(1),
        )
    )
    return next(iter(catalog))


@pytest.fixture(scope="module")
def order() -> ArgumentCheck:
    return ArgumentCheck(tool_of(Order))


def faults(found: dict[str, Any] | Refusal) -> list[tuple[str, str]]:
    assert isinstance(found, Refusal), found
    assert found.code is Code.INVALID_ARGUMENTS
    assert (found.field, found.reason) == (found.faults[0].field, found.faults[0].reason)
    return [(fault.field, fault.reason) for fault in found.faults]


def test_defaults_are_filled_in_and_values_normalised(order: ArgumentCheck) -> None:
    """C8"""
    raw = '{"amount": 5e0, "note": "  hi ", "order_id": "A", "lines": [{"sku": "X"}], "path": "a/./b.txt"}'
    assert order.check(raw) == {
        "order_id": "A", "amount": 5, "mode": "slow", "lines": [{"sku": "X", "count": 1}], "note": "hi", "path": "a/./b.txt",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"order_id": None}, [("/order_id", "wrong_type")]),
        ({"amount": "5"}, [("/amount", "wrong_type")]),
        ({"amount": True}, [("/amount", "wrong_type")]),
        ({"amount": 0}, [("/amount", "out_of_range")]),
        ({"amount": 1001}, [("/amount", "out_of_range")]),
        ({"mode": "warp"}, [("/mode", "not_allowed")]),
        ({"order_id": "x" * 21}, [("/order_id", "wrong_length")]),
        ({"lines": [{"sku": "A"}] * 4}, [("/lines", "wrong_length")]),
        ({"lines": [{"sku": "A", "count": "2"}]}, [("/lines/0/count", "wrong_type")]),
        ({"lines": [{"sku": "A", "count": 1.5}]}, [("/lines/0/count", "wrong_type")]),
        ({"lines": [{"sku": "a"}]}, [("/lines/0/sku", "wrong_pattern")]),
        ({"lines": [{"sku": "A"}, {"count": 1}]}, [("/lines/1/sku", "missing_field")]),
        ({"lines": [{"sku": "A", "x/y": 1}]}, [("/lines/0/x~1y", "unknown_field")]),
        ({"call_id": "a" * 64}, [("/call_id", "unknown_field")]),
        ({"note": 5}, [("/note", "fits_no_alternative")]),
        ({"note": "x" * 51}, [("/note", "wrong_length")]),
        ({"path": "../../etc/passwd"}, [("/path", "outside_workspace")]),
        ({"path": "/etc/passwd"}, [("/path", "outside_workspace")]),
        ({"path": "a\u0000b"}, [("/path", "outside_workspace")]),
    ],
)
def test_each_fault_has_its_place_and_a_stable_word(order: ArgumentCheck, change: dict[str, Any], expected: Any) -> None:
    """C6, C5, C9: and a number sent as text is refused, never coerced."""
    assert faults(order.check(json.dumps({"order_id": "A", "amount": 5, **change}))) == expected


def test_a_misspelt_field_is_named_beside_the_missing_one(order: ArgumentCheck) -> None:
    """C5, C6"""
    assert faults(order.check('{"order": "A", "amount": 5}')) == [("/order_id", "missing_field"), ("/order", "unknown_field")]


def test_at_most_ten_faults_are_told(order: ArgumentCheck) -> None:
    """C5"""
    raw = json.dumps({"order_id": "A", "amount": 1, **{f"x{n}": n for n in range(1000)}})
    assert len(faults(order.check(raw))) == 10


@pytest.mark.parametrize("raw", ["[]", "null", '"{}"', "7", "[{}]"])
def test_anything_but_an_object_is_refused(order: ArgumentCheck, raw: str) -> None:
    """C5: also an object that was encoded twice."""
    assert faults(order.check(raw)) == [("", "not_an_object")]


def test_a_text_fault_is_told_as_such(order: ArgumentCheck) -> None:
    """C5"""
    assert faults(order.check('{"order_id":"A","amount":5,"amount":6}')) == [("/amount", "duplicate_key")]


class Cat(Strict):
    kind: Literal["cat"]
    lives: int


class Dog(Strict):
    kind: Literal["dog"]
    tricks: list[str]


class Home(Strict):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    other: Cat | Dog | None = None


@pytest.mark.parametrize(
    ("pet", "expected"),
    [
        ({"kind": "cat", "lives": 9, "tail": 1}, ("/tail", "unknown_field")),
        ({"kind": "dog", "tricks": ["sit", 4]}, ("/tricks/1", "wrong_type")),
        ({"kind": "cow"}, ("", "fits_no_alternative")),
        ("cat", ("", "fits_no_alternative")),
    ],
)
def test_in_alternatives_the_one_that_was_meant_is_told(pet: Any, expected: tuple[str, str]) -> None:
    """C5: unknown fields at any depth, with their path."""
    check = ArgumentCheck(tool_of(Home))
    good = {"kind": "cat", "lives": 9}
    for name in ("pet", "other"):
        raw = json.dumps({"pet": good, "other": good, name: pet})
        assert faults(check.check(raw)) == [(f"/{name}{expected[0]}", expected[1])]


def test_without_a_model_defaults_of_the_schema_are_filled_in() -> None:
    """C8"""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}, "default": []}},
    }
    check = ArgumentCheck(tool_with(schema))
    first, second = check.check('{"a": 1.0}'), check.check("{}")
    assert first == {"a": 1, "b": []}
    assert isinstance(first, dict)
    assert isinstance(first["a"], int)
    first["b"].append("x")
    assert second == check.check("{}") == {"b": []}


def test_parts_put_together_tell_the_real_fault_only() -> None:
    """C5: a part that failed makes all its fields look unknown; that noise is left out."""
    base = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    more = {"type": "object", "properties": {"n": {"type": "integer"}}}
    check = ArgumentCheck(tool_with({"type": "object", "properties": {"a": {"allOf": [base, more]}}}))
    assert faults(check.check('{"a": {"id": "x", "n": "1"}}')) == [("/a/n", "wrong_type")]
    assert faults(check.check('{"a": {"n": 1}}')) == [("/a/id", "missing_field")]
    assert faults(check.check('{"a": {"id": "x", "n": 1, "zz": 2}}')) == [("/a/zz", "unknown_field")]


class Money(Strict):
    price: Decimal
    day: dt.date
    rate: float = 0.5


def test_what_json_has_no_type_for_comes_out_as_text_and_stays() -> None:
    """C8"""
    check = ArgumentCheck(tool_of(Money))
    assert check.check('{"price": "10.50", "day": "2026-01-31"}') == {"price": "10.50", "day": "2026-01-31", "rate": 0.5}
    assert faults(check.check('{"price": "10.50", "day": "2026-02-31"}')) == [("/day", "wrong_format")]


class Unstable(Strict):
    text: Annotated[str, AfterValidator(lambda text: text + "!")]


def test_a_normalisation_that_never_ends_is_refused() -> None:
    """C8: else the executor would run other arguments than were judged."""
    assert faults(ArgumentCheck(tool_of(Unstable)).check('{"text": "a"}')) == [("", "normalisation_unstable")]


class OnlyTheModelKnows(Strict):
    text: Annotated[str, AfterValidator(lambda text: text if text != "no" else (_ for _ in ()).throw(ValueError("secret words")))]


def test_the_model_is_a_second_check_of_its_own() -> None:
    """C7: and its words, which quote the input, are not told."""
    found = ArgumentCheck(tool_of(OnlyTheModelKnows)).check('{"text": "no"}')
    assert faults(found) == [("/text", "not_allowed")]
    assert "secret" not in repr(found)


ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "order_id": st.text(max_size=22) | st.integers(0, 3) | st.none(),
        "amount": st.floats(-10, 1100) | st.integers(-1, 1001) | st.sampled_from(["5", True, None]),
        "mode": st.sampled_from(["fast", "slow", "warp", 1]),
        "lines": st.lists(
            st.fixed_dictionaries(
                {}, optional={"sku": st.sampled_from(["A", "a", 1]), "count": st.sampled_from([1, 1.0, 1.5, "1", 0, 100])}
            ),
            max_size=4,
        ),
        "note": st.text(max_size=52) | st.none() | st.integers(0, 3),
        "path": st.sampled_from(["a", "../a", "/a", "a/..", "", None, 3, "a\\b", "a/b.c"]),
        "extra": st.just(1),
    },
)


@given(ARGUMENTS)
def test_schema_and_model_agree(arguments: dict[str, Any]) -> None:
    """C7, C2: the schema that a model is given and the typed model accept the same arguments."""
    tool = tool_of(Order)
    by_schema = compile_schema(tool.schema).is_valid(arguments)
    try:
        tool.land(json.loads(canonical(arguments)))
    except ValidationError:
        by_model = False
    else:
        by_model = True
    # pydantic counts the length after the white space is gone; the schema, which a model sees, before.
    stripped = isinstance(note := arguments.get("note"), str) and len(note) > 50 >= len(note.strip())
    assert by_schema == by_model or (stripped and by_model)
    assert isinstance(ArgumentCheck(tool).check(json.dumps(arguments)), Refusal) == (not by_schema)


@given(ARGUMENTS)
def test_normalised_arguments_are_normal(arguments: dict[str, Any]) -> None:
    """C8: landing them again gives the same, and so the same digest."""
    check = ArgumentCheck(tool_of(Order))
    once = check.check(json.dumps(arguments))
    if not isinstance(once, Refusal):
        again = check.check(canonical(once).decode())
        assert once == again
        assert repr(once) == repr(again)


@given(st.text(alphabet=st.sampled_from("ab./\\\x00\n~"), max_size=12))
def test_a_workspace_path_never_leads_upwards(text: str) -> None:
    """C6: whatever the rest, no prefix of its segments climbs above the start."""
    if is_workspace_path(text):
        assert not text.startswith("/")
        assert ".." not in text.replace("\\", "/").split("/")
        assert "\x00" not in text


RETAIL = Path(__file__).parents[3] / "shared" / "data" / "retail"


@pytest.mark.skipif(not RETAIL.is_dir(), reason="the retail data set is not laid out beside this repository")
def test_the_right_calls_of_a_real_shop_pass_as_they_are() -> None:
    """C2, C8: 16 contracts that others wrote, 380 calls of them."""
    contracts = json.loads((RETAIL / "tools.json").read_text())
    checks = {name: ArgumentCheck(tool_with(contract["parameters"])) for name, contract in contracts.items()}
    tasks = [json.loads(line) for line in (RETAIL / "tasks.jsonl").read_text().splitlines()]
    calls = [call for task in tasks for call in task["calls"]]
    assert (len(checks), len(calls)) == (16, 380)
    for call in calls:
        assert checks[call["tool"]].check(json.dumps(call["arguments"])) == call["arguments"]
