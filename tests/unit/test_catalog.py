"""Registering, loading, exporting and checking tools."""

from __future__ import annotations

import copy
import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field

from fourgates.catalog import (
    Catalog,
    Effect,
    OnDuplicate,
    OutputLimit,
    Preview,
    Rule,
    Tool,
    ToolContext,
    check_catalog,
    export_anthropic,
    export_mcp,
    export_openai,
    load_catalog,
)
from fourgates.catalog.schema import compile_schema
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Risk


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Refund(Strict):
    """What to give back."""

    order_id: str = Field(max_length=20, description="The order.")
    cents: int = Field(ge=1)
    note: str = Field(default="", max_length=100)
    lines: list[str] = []


def facts(args: Refund, principal: Any) -> dict[str, Any]:
    return {}


def preview(args: Refund, principal: Any) -> Preview:
    return Preview(target=args.order_id, before=0, after=1, recoverable=False)


def probe(args: Refund, ctx: ToolContext) -> Any: ...


def register(**contract: Any) -> Tool:
    catalog = Catalog("test")
    settings: dict[str, Any] = {"risk": "write", "timeout": 5, "description": "Refunds.", **contract}

    @catalog.tool(**settings)
    def refund(args: Refund, ctx: ToolContext) -> None: ...

    return next(iter(catalog))


def plain(schema: dict[str, Any], **fields: Any) -> Tool:
    defaults: dict[str, Any] = {
        "name": "plain", "description": "Reads.", "risk": Risk.READ, "model": None, "run": lambda args, ctx: None,
        "timeout": timedelta(seconds=1),
    }  # fmt: skip
    return Tool(schema=schema, **{**defaults, **fields})


def rule(name: str = "small", expression: str = "args.cents < 5", sentence: str = "Too much.", field: str = "/cents") -> Rule:
    return Rule(name, expression, sentence, field)


@pytest.mark.parametrize(
    ("contract", "words"),
    [
        ({"timeout": 0}, "every call would time out"),
        ({"timeout": -1}, "timeout must be positive"),
        ({"facts_timeout": 0}, "facts_timeout"),
        ({"settle": timedelta(seconds=-1)}, "settle"),
        ({"output": OutputLimit(bytes=0)}, "output limit"),
        ({"output": OutputLimit(lines=0)}, "output limit"),
        ({"name": "no spaces"}, "letters, digits"),
        ({"name": "n" * 65}, "letters, digits"),
        ({"description": " "}, "no description"),
        ({"risk": "mild"}, "risk 'mild' is unknown"),
        ({"timeouts": 3}, "has no timeouts"),
        ({"on_breach": "refuse"}, "on_breach must be a OnBreach, not 'refuse'"),
        ({"effect": "refund"}, "effect must be a Effect"),
        ({"effect": Effect("refund", "{order_id}")}, "effect.parts must be a tuple"),  # type: ignore[arg-type]
        ({"rules": ("args.cents < 5",)}, "rules must be a Rule"),
        ({"risk": "read", "effect": Effect("refund")}, "read with an effect"),
        ({"risk": "read", "probe": probe}, "read with a probe"),
        ({"effect": Effect("")}, "effect needs a name"),
        ({"effect": Effect("a/b")}, "without '/'"),
        ({"effect": Effect("refund", window=timedelta(0))}, "window must be positive"),
        ({"effect": Effect("refund", window=timedelta(days=38))}, "at most 37 days"),
        ({"effect": Effect("refund", ("{order}",))}, "{order}, which is no argument"),
        ({"effect": Effect("refund", ("{note}",))}, "{note}, which is optional"),
        ({"effect": Effect("refund", ("{lines}",))}, "{lines}, which is optional"),
        ({"effect": Effect("refund", ("{order_id.__class__}",))}, "plain {field} only"),
        ({"effect": Effect("refund", ("{cents:>9}",))}, "plain {field} only"),
        ({"effect": Effect("refund", ("{order_id!r}",))}, "plain {field} only"),
        ({"effect": Effect("refund", ("{}",))}, "plain {field} only"),
        ({"effect": Effect("refund", ("{order_id",))}, "no template"),
        ({"effect": Effect("refund", ("{order_id}",), per_call=True)}, "parts would be ignored"),
        ({"effect": Effect("refund", per_call=True, on_duplicate=OnDuplicate.REPLAY)}, "has no duplicates"),
        ({"effect": Effect("refund", ("all",), on_duplicate=OnDuplicate.REPLAY)}, "the first call's result"),
        ({"rules": (rule(), rule())}, "2 rules are named 'small'"),
        ({"rules": (rule(sentence=""),)}, "needs a name, an expression and a sentence"),
        ({"rules": (rule(expression=" "),)}, "needs a name, an expression and a sentence"),
        ({"rules": (rule(field="cents"),)}, "write a JSON Pointer"),
        ({"rules": (rule(field="/price"),)}, "write a JSON Pointer"),
        ({"facts_types": {"owner": "string"}}, "without a facts provider"),
        ({"origins": {"order": {"user"}}}, "unguarded"),
        ({"origins": {"order_id": set()}}, "no call could ever pass"),
        ({"origins": {"order_id": {"god"}}}, "'god'"),
        ({"origins": {"note": {"user", "within"}}}, "a call without it would be held"),
        ({"redact": ("shoe_size",)}, "nobody would redact"),
        ({"lift": ("total", "total")}, "one twice"),
        ({"trusted_results": frozenset({""})}, "empty name"),
        ({"trusted_results": frozenset({"orders//id"})}, "empty name"),
        ({"facts": lambda args: {}}, "facts(args, principal)"),
        ({"preview": lambda: None}, "preview(args, principal)"),
        ({"probe": "later"}, "probe(args, ctx)"),
    ],
)
def test_a_contradiction_is_refused_when_it_is_registered(contract: dict[str, Any], words: str) -> None:
    """C1"""
    with pytest.raises(ConfigurationError) as refused:
        register(**contract)
    assert words in str(refused.value)


def test_a_whole_contract_is_accepted() -> None:
    """C1"""
    tool = register(
        effect=Effect("refund", ("{order_id}", "cents-{cents}"), on_duplicate=OnDuplicate.REPLAY),
        rules=(rule(), rule("other", field="")),
        facts=facts, facts_types={"owner": "string"}, preview=preview, probe=probe, redact=("iban", "card"), lift=("total",),
        origins={"order_id": {"user", "within", "result:find_order"}}, trusted_results=frozenset({"total", "lines/*/sku", "*"}),
    )  # fmt: skip
    assert len(tool.version) == 64


def test_all_contradictions_are_told_at_once() -> None:
    """C1"""
    with pytest.raises(ConfigurationError) as refused:
        register(timeout=0, redact=("x",), origins={"y": {"user"}})
    assert all(word in str(refused.value) for word in ("timeout", "redact", "origins"))


@pytest.mark.parametrize(
    "name", ["call_id", "idempotency_key", "token", "api_key", "authorization", "password", "apiKey", "Access-Token"]
)
def test_no_tool_takes_a_key_or_a_token_from_a_model(name: str) -> None:
    """C9: at any depth."""
    inner = {"type": "object", "properties": {name: {"type": "string"}}}
    for schema in (inner, {"type": "object", "properties": {"a": {"type": "array", "items": inner}}}):
        with pytest.raises(ConfigurationError, match="no model sends them"):
            Catalog("test").add(plain(schema))


def test_a_field_that_only_sounds_like_a_token_is_accepted() -> None:
    """C9"""
    Catalog("test").add(plain({"type": "object", "properties": {"page_token": {"type": "string"}, "key": {"type": "string"}}}))


def test_a_name_belongs_to_one_tool() -> None:
    """C1"""
    catalog = Catalog("test")
    catalog.add(plain({"type": "object"}))
    with pytest.raises(ConfigurationError, match="twice"):
        catalog.add(plain({"type": "object"}))


def test_a_default_that_its_own_schema_refuses_is_refused() -> None:
    """C1, C8"""
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A", "default": "x"}}, "$defs": {"A": {"type": "integer"}}}
    with pytest.raises(ConfigurationError, match="does not fit its own schema"):
        Catalog("test").add(plain(schema))


def test_an_unusable_schema_is_refused_with_the_tools_name() -> None:
    """C1, C5"""
    with pytest.raises(ConfigurationError, match="tool 'plain': its schema cannot be closed: /properties/a takes any value"):
        Catalog("test").add(plain({"type": "object", "properties": {"a": {}}}))


class Loose(BaseModel):
    a: int


class OpenInside(Strict):
    inner: Loose


class OpenMap(Strict):
    values: dict[str, Any]


class Computes(Strict):
    a: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return 2 * self.a


class TwoNames(Strict):
    a: int = Field(validation_alias="x", serialization_alias="y")


class Hides(Strict):
    a: int = Field(exclude=True)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Loose, "strict=True"), (OpenInside, "/properties/inner takes unknown fields"), (OpenMap, "takes any value"),
        (Computes, "computes 'twice'"), (TwoNames, "one alias for both"), (Hides, "excludes 'a'"), (int, "pydantic model"),
    ],
)  # fmt: skip
def test_a_model_that_would_not_be_a_second_check_is_refused(model: Any, words: str) -> None:
    """C7"""

    def act(args: Any, ctx: ToolContext) -> None: ...

    act.__annotations__["args"] = model
    with pytest.raises(ConfigurationError) as refused:
        Catalog("test").tool(risk="read", timeout=1, description="Acts.")(act)
    assert words in str(refused.value)


def catalog_of_both_kinds() -> Catalog:
    catalog = Catalog("both")

    @catalog.tool(risk="destructive", timeout=5, description="Refunds an order.")
    def refund(args: Refund, ctx: ToolContext) -> None: ...

    catalog.add(plain({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}}}))
    return catalog


def test_every_export_carries_the_schema_that_is_enforced() -> None:
    """C2"""
    catalog = catalog_of_both_kinds()
    enforced = [(tool.name, tool.description, tool.schema) for tool in catalog]
    openai = [entry["function"] for entry in export_openai(catalog)]
    assert [(entry["name"], entry["description"], entry["parameters"]) for entry in openai] == enforced
    assert [(entry["name"], entry["description"], entry["input_schema"]) for entry in export_anthropic(catalog)] == enforced
    assert [(entry["name"], entry["description"], entry["inputSchema"]) for entry in export_mcp(catalog)] == enforced
    assert [entry["annotations"]["destructiveHint"] for entry in export_mcp(catalog)] == [True, False]
    for _, _, schema in enforced:
        assert schema["additionalProperties"] is False
        compile_schema(schema)


def test_a_changed_copy_does_not_reach_what_is_enforced() -> None:
    """C2"""
    catalog = catalog_of_both_kinds()
    before = copy.deepcopy([tool.schema for tool in catalog])
    for entry in export_anthropic(catalog):
        entry["input_schema"]["properties"].clear()
    assert [tool.schema for tool in catalog] == before


def test_descriptions_are_no_part_of_the_version() -> None:
    """C2: neither the tool's nor those of its fields; what decides is."""
    schema = {"type": "object", "title": "T", "properties": {"description": {"type": "string", "description": "One."}}}
    other = {"type": "object", "properties": {"description": {"type": "string", "description": "Two.", "examples": ["x"]}}}
    tighter = {"type": "object", "properties": {"description": {"type": "string", "maxLength": 5}}}
    filled = {"type": "object", "properties": {"description": {"type": "string", "default": "x"}}}
    run = print
    versions = [plain(each, run=run, description=str(each)).version for each in (schema, other, tighter, filled)]
    assert versions[0] == versions[1]
    assert len(set(versions)) == 3


def test_numbers_give_one_effect_key_however_they_are_written() -> None:
    """E4: 50 and 50.0 are one amount in canonical JSON, so the executor's key equals the validator's."""
    schema = {"type": "object", "properties": {"n": {"type": "number"}, "b": {"type": "boolean"}}, "required": ["n", "b"]}
    tool = plain(schema, risk=Risk.WRITE, effect=Effect("pay", ("{n}", "{b}")))
    assert tool.effect_key("t", {"n": 50, "b": True}, "d", "c") == tool.effect_key("t", {"n": 50.0, "b": True}, "d", "c")
    assert tool.effect_key("t", {"n": 50, "b": True}, "d", "c") != tool.effect_key("t", {"n": 50, "b": False}, "d", "c")


class Wide(Strict):
    sql: str
    command: str = Field(max_length=10)
    url: str = Field(max_length=100)
    kind: Literal["a", "b"] = "a"


class Bare(Strict):
    x: int


def findings_of(model: type[BaseModel], **contract: Any) -> dict[str, str]:
    catalog = Catalog("test")

    def act(args: Any, ctx: ToolContext) -> None: ...

    act.__annotations__["args"] = model
    catalog.tool(**{"risk": "read", "timeout": 1, **contract})(act)
    found = check_catalog(catalog)
    assert len({finding.rule for finding in found}) == len(found), "each once"
    assert all(finding.tool == "act" and finding.sentence for finding in found)
    return {finding.rule: finding.sentence for finding in found}


GOOD = "Looks an order up. Use it when the order's number is known. Changes nothing. Returns the order."


def test_wide_tools_are_named() -> None:
    """C3"""
    found = findings_of(Wide, description=GOOD + " sql, command, url and kind are what they are.")
    assert set(found) == {"wide_sql", "wide_shell", "wide_url", "unbounded_string"}
    assert "sql" in found["unbounded_string"]
    assert "command" not in found["unbounded_string"]


def test_writes_without_effect_key_probe_or_preview_are_named() -> None:
    """C3"""
    found = findings_of(Bare, risk="write", description=GOOD + " x is a number.")
    assert set(found) == {"no_effect_key", "no_probe", "no_preview"}


def test_descriptions_that_leave_a_model_guessing_are_named() -> None:
    """C3"""
    found = findings_of(Bare, description="Order tool.")
    assert set(found) == {"description_when", "description_parameters", "description_side_effects", "description_returns"}


def test_a_good_contract_has_no_findings() -> None:
    """C3"""
    found = findings_of(
        Refund, risk="write", effect=Effect("refund", ("{order_id}",)), probe=probe, preview=preview,
        description="Refunds an order. Use it when the customer asks for it. Sends money back; it cannot be undone. "
        "order_id is the order, cents how much, note why, lines which. Returns the receipt.",
    )  # fmt: skip
    assert set(found) == {"unbounded_string"}
    assert "lines" in found["unbounded_string"]


class Bounded(Strict):
    day: str = Field(pattern=r"^\d{4}-\d{2}$")
    free: str = Field(pattern=r"^\d+$")
    tags: list[Annotated[str, Field(max_length=5)]]
    url: str = Field(pattern=r"^https://api\.example\.com/", max_length=99)


def test_a_pattern_bounds_a_string_only_where_nothing_repeats_without_end() -> None:
    """C3"""
    found = findings_of(Bounded, description=GOOD + " day, free, tags, url.")
    assert set(found) == {"unbounded_string"}
    assert "free" in found["unbounded_string"]
    assert "day" not in found["unbounded_string"]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


SHOP = """
from fourgates.catalog import Catalog, Tool
from fourgates.contract.parts import Risk
from datetime import timedelta
catalog, empty, number = Catalog("shop"), Catalog("empty"), 7
catalog.add(Tool(name="t", description="T.", risk=Risk.READ, schema={"type": "object"}, model=None,
                 run=lambda args, ctx: None, timeout=timedelta(seconds=1)))
"""


def test_a_catalog_is_found_in_the_folder_where_one_works(shop: Path) -> None:
    """S10"""
    (shop / "my_shop_tools.py").write_text(SHOP)
    assert [tool.name for tool in load_catalog("my_shop_tools:catalog")] == ["t"]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("my_shop_tools", "not of the form module:attr"),
        (":catalog", "not of the form module:attr"),
        ("nowhere_at_all:catalog", "there is no module 'nowhere_at_all'"),
        ("my_shop_tools:katalog", "has no 'katalog'"),
        ("my_shop_tools:number", "is a int"),
        ("my_shop_tools:empty", "has no tools"),
        ("needs:catalog", "imports 'not_installed_here', which is not installed"),
        ("broken:catalog", "ZeroDivisionError: division by zero (broken.py, line 2)"),
        ("contradicts:catalog", "registered twice"),
    ],
)
def test_a_catalog_that_cannot_be_loaded_says_why_in_one_sentence(shop: Path, where: str, words: str) -> None:
    """C1, S10"""
    (shop / "my_shop_tools.py").write_text(SHOP)
    (shop / "needs.py").write_text("import not_installed_here\n")
    (shop / "broken.py").write_text("x = 1\ny = x / 0\n")
    (shop / "contradicts.py").write_text(SHOP + "catalog.add(next(iter(catalog)))\n")
    with pytest.raises(ConfigurationError) as refused:
        load_catalog(where)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_earlier_version_is_kept_beside_the_current_one() -> None:
    """S8: by its version it is found, by name the current one is; what is gone from the catalog or unchanged is not kept."""

    def made(timeout: float, *names: str) -> Catalog:
        catalog = Catalog("shop")
        for name in names:
            catalog.register(
                _nothing, name=name, description="Does nothing.", arguments={"type": "object", "properties": {}}, risk="read",
                timeout=timeout,
            )  # fmt: skip
        return catalog

    earlier, current = made(1.0, "a", "gone"), made(2.0, "a", "b")
    current.keep(earlier)
    current.keep(made(2.0, "b"))
    old, new = earlier.get("a"), current.get("a")
    assert old is not None and new is not None and old.version != new.version
    assert current.get("a", old.version) is old
    assert current.get("a", new.version) is current.get("a", "unknown") is new
    assert current.get("gone") is None
    assert [tool.name for tool in current] == ["a", "b"]
    assert {(tool.name, tool.version) for tool in current.served()} == {(t.name, t.version) for t in (old, *current)}


async def _nothing(args: object, ctx: object) -> None: ...
