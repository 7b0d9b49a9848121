"""What the first three gates cost a call, in microseconds of CPU time, best of some runs.

    python tests/benchmarks/gates_bench.py            writes build/bench-gates.json

`gates()` is a part for `make bench`. Each figure also stands as a ratio to `json.loads` of the same text in the same run, because
a microsecond is not the same on every machine.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, it stands outside of the tests' own path

from pydantic import BaseModel, ConfigDict, Field

from fourgates.catalog import Catalog, Rule
from fourgates.catalog.schema import compile_schema
from fourgates.contract.canonical import canonical, digest
from fourgates.contract.parts import Gate, Principal
from fourgates.contract.seals import RecordOpener, seal_verdict, verdicts_fit
from fourgates.gates.business import CompiledRules, gather_facts
from fourgates.gates.format import ArgumentCheck, strict_parse
from fourgates.gates.identity import GrantBook, TokenVerifier
from fourgates.gates.permission import Policies
from fourgates.gates.refusal import Refusal
from support import policies as shop
from support.hostile import slowest
from support.records import codec
from support.samples import CALL, PRINCIPAL, VERDICT
from support.tokens import NOW_MS, keyring, sealed

LIMITS_US = {
    "strict_ingress_600_bytes": 25.0, "schema": 5.0, "digest": 70.0, "ten_rules": 60.0, "identity_cached_grant": 6.0,
    "cedar_100_policies": 150.0, "cedar_100_policies_user_and_agent": 150.0, "four_seals_made_and_checked": 40.0,
}  # fmt: skip
LIMIT_256_KIB_MS = 50.0


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Address(_Strict):
    street: str = Field(max_length=80)
    city: str = Field(max_length=40)
    zip: str = Field(pattern="^[0-9]{5}$")


class Line(_Strict):
    sku: str = Field(max_length=20)
    count: int = Field(ge=1, le=99)
    price: float = Field(gt=0)


class Order(_Strict):
    order_id: str = Field(max_length=20)
    amount: float = Field(gt=0, le=10_000)
    express: bool
    note: str = Field(max_length=200)
    address: Address
    lines: list[Line] = Field(max_length=20)


_ADDRESS = {"street": "12 Example Street", "city": "Teststadt", "zip": "12345"}
_LINES = [{"sku": f"SKU-{number:03}", "count": number % 9 + 1, "price": 19.99 + number} for number in range(7)]
_NOTE = "Please leave it with the neighbours if nobody is at home; thank you — see you soon \U0001f600"
_VALUE: dict[str, Any] = {
    "order_id": "#W1234567", "amount": 149.5, "express": False, "note": _NOTE, "address": _ADDRESS, "lines": _LINES,
}  # fmt: skip
TEXT = json.dumps(_VALUE, ensure_ascii=False)

_TEN = (
    "args.amount <= 1000.0", "args.lines.size() > 0", "facts.owner == principal.subject", "facts.status in ['pending', 'paid']",
    "'support' in principal.groups", "args.order_id.startsWith('#W')", "args.amount <= facts.total",
    "args.lines.all(line, line.count < 50)", "now < timestamp('2100-01-01T00:00:00Z')", "!args.express || args.amount > 50.0",
)  # fmt: skip
_FACTS = {"owner": PRINCIPAL.subject, "status": "paid", "total": 500.0}
_TYPES = {"owner": "string", "status": "string", "total": "double"}


def best_us(work: Callable[[], Any], runs: int = 60, run_s: float = 0.004) -> float:
    """CPU microseconds of one call of `work`: the best of many short runs, of which some fall between what others do."""
    count, spent = 1, 0.0
    while True:
        spent = _cpu(work, count)
        if spent >= run_s:
            break
        count *= 2
    return min([spent, *(_cpu(work, count) for _ in range(runs - 1))]) / count * 1e6


def _cpu(work: Callable[[], Any], count: int) -> float:
    begun = time.thread_time()
    for _ in range(count):
        work()
    return time.thread_time() - begun


def gates() -> dict[str, Any]:
    """{"us": {what: microseconds}, "limits_us": …, "ratios": {what: to json.loads}, "over": [what is above its limit]}."""
    catalog = _catalog()
    tool = next(iter(catalog))
    check, validator = ArgumentCheck(tool), compile_schema(tool.schema)
    rules, facts = CompiledRules(tool), asyncio.run(gather_facts(tool, None, PRINCIPAL))
    assert not isinstance(facts, Refusal) and rules.judge(_VALUE, PRINCIPAL, facts, (), "", NOW_MS) is None
    assert isinstance(strict_parse(TEXT), dict) and isinstance(check.check(TEXT), dict) and validator.is_valid(_VALUE)
    alone, both = _permission(shop.HUMAN), _permission(PRINCIPAL)
    text, slow = slowest(strict_parse)
    us = {
        "json_loads": best_us(lambda: json.loads(TEXT)),
        "strict_ingress_600_bytes": best_us(lambda: strict_parse(TEXT)),
        "schema": best_us(lambda: validator.is_valid(_VALUE)),
        "whole_argument_check": best_us(lambda: check.check(TEXT)),
        "digest": best_us(lambda: digest(_VALUE)),
        "canonical_form": best_us(lambda: canonical(_VALUE)),
        "ten_rules": best_us(lambda: rules.judge(_VALUE, PRINCIPAL, facts, (), "", NOW_MS)),
        "identity_cached_grant": best_us(_identity()),
        "cedar_100_policies": best_us(alone),
        "cedar_100_policies_user_and_agent": best_us(both),
        "four_seals_made_and_checked": best_us(_four_seals),
    }
    over = [what for what, limit in LIMITS_US.items() if us[what] > limit]
    return {
        "text_bytes": len(TEXT.encode()),
        "us": {what: round(cost, 2) for what, cost in us.items()},
        "limits_us": LIMITS_US,
        "ratios": {what: round(cost / us["json_loads"], 2) for what, cost in us.items()},
        "slowest_256_kib": {"text": text, "ms": round(slow * 1e3, 1), "limit_ms": LIMIT_256_KIB_MS},
        "over": over + (["slowest_256_kib"] if slow * 1e3 > LIMIT_256_KIB_MS else []),
    }


def _catalog() -> Catalog:
    catalog = Catalog("bench")
    rules = tuple(Rule(f"rule_{number}", expression, "No.") for number, expression in enumerate(_TEN))

    @catalog.tool(risk="write", timeout=5, description="Orders.", facts=lambda args, who: _FACTS, facts_types=_TYPES, rules=rules)
    def order(args: Order, ctx: Any) -> None: ...

    return catalog


def _identity() -> Callable[[], Any]:
    book = GrantBook(keyring().validator_private(), TokenVerifier(keyring().issuer.trust()))
    received = sealed()
    request: Any = RecordOpener(codec(), keyring().verifier()).open(_placed(received)).record
    assert isinstance(book.open(request, received.value, NOW_MS), Principal)
    return lambda: book.open(request, received.value, NOW_MS + 1)


def _permission(who: Principal) -> Callable[[], Any]:
    catalog = shop.shop()
    more = "".join(
        f'@id("more-{number}")\npermit (principal in Fourgates::Group::"team-{number}", '
        f'action == Fourgates::Action::"refund_order", resource) when {{ context.args.units < {number} }};\n'
        for number in range(94)
    )
    policies = Policies.load(shop.POLICIES + more, catalog)
    call = shop.refund(catalog, who)
    arguments = json.loads(call.arguments)
    assert not isinstance(policies.authorize(call, arguments, shop.FACTS), Refusal)
    return lambda: policies.authorize(call, arguments, shop.FACTS)


_GATES = (Gate.VALIDATOR, Gate.AUTHORIZER, Gate.WAITER, Gate.WAITER)
_SIGNED = tuple((keyring().signer(gate.value), dataclasses.replace(VERDICT, gate=gate, mac=b"")) for gate in _GATES)
_VERIFIER = keyring().verifier()
_CALLS = cycle((CALL, dataclasses.replace(CALL)))
"""Another object each time, as each record brings its own."""


def _four_seals() -> None:
    call = next(_CALLS)
    verdicts: tuple[Any, ...] = ()
    for signer, verdict in _SIGNED:
        verdicts = seal_verdict(signer, call, verdict, verdicts)
    assert verdicts_fit(_VERIFIER, call, verdicts, _GATES)


def _placed(received: Any) -> Any:
    """On the partition where its key belongs."""
    from fourgates.contract.partition import partition_of
    from fourgates.contract.topology import BY_NAME

    position = received.position
    partition = partition_of(received.key, BY_NAME[position.topic].partitions)
    return dataclasses.replace(received, position=dataclasses.replace(position, partition=partition))


def print_gates(figures: dict[str, Any]) -> None:
    """A line a figure, then what is above its limit."""
    for what, cost in figures["us"].items():
        print(f"{what:36} {cost:9.2f} us  {figures['ratios'][what]:7.2f}x  {LIMITS_US.get(what, '')}")
    print("slowest 256 KiB:", figures["slowest_256_kib"])
    print("above the limit:", ", ".join(figures["over"]) or "nothing")


def main() -> None:
    figures = gates()
    out = Path("build/bench-gates.json")
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(figures, indent=1) + "\n")
    print_gates(figures)


if __name__ == "__main__":
    main()
