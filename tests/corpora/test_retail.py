"""The retail corpus: a catalog over recorded data of a shop, its correct calls, and mutants of them that must not run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corpora import retail
from corpora.retail_shop import rules
from corpora.retail_shop.arithmetic import calculate
from corpora.retail_shop.shop import make_catalog
from corpora.retail_shop.store import Shops
from corpora.retail_trial.breeding import Breeder
from corpora.retail_trial.tasks import WRITES, Data, Step, Task
from fourgates.assembly import load_policies
from fourgates.catalog import Catalog, Committed, ToolContext, ToolError, check_catalog
from fourgates.contract.parts import Principal, Risk
from support.shared import shared_path

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def data() -> Data:
    return Data.load(shared_path("data/retail"))


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return make_catalog(Shops(tmp_path))


@pytest.mark.timeout(300)  # some ten seconds of work, on a machine that may be busy
async def test_correct_calls_pass_and_mutants_do_not(data: Data, tmp_path: Path) -> None:
    """B1, B2, B4, P3, A1, E4: every recorded call on the in-process bus, with the mutants of every fifth task."""
    mutated = frozenset(task.name for task in data.tasks[::5])
    counts = await retail.measure(data, Breeder(data, only=mutated), "memory", tmp_path)
    told = counts.told()
    assert counts.wrong == []
    assert (told["calls"], told["outcomes_equal"]) == (380, 380)
    assert (told["tasks"], told["stores_equal"]) == (79, 79)
    assert told["mutants_refused"] == told["mutants"] >= 300
    assert told["tool_entries_on_refused"] == 0
    assert counts.told_whole == sum(step.ok for task in data.tasks for step in task.steps), (
        "something innocent was redacted or cut"
    )
    assert retail.in_order(counts)


async def test_a_gate_that_stands_open_is_noticed(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B1: with a rule that lets everything pass, a tool is entered for what was to be refused, and the counts say so."""
    monkeypatch.setattr(rules, "OWN_PROFILE", dataclasses.replace(rules.OWN_PROFILE, expression="true"))
    task = next(task for task in data.tasks if any(step.tool == "get_user_details" for step in task.steps))
    counts = await retail.measure(Data(data.store, (task,)), Breeder(data), "memory", tmp_path)
    told = counts.told()
    assert told["mutants_refused"] < told["mutants"]
    assert told["tool_entries_on_refused"] > 0
    assert not retail.in_order(counts)


def test_the_tools_answer_and_change_the_store_as_recorded(data: Data, tmp_path: Path) -> None:
    """B1: what stands behind the gates is the recorded shop, so an outcome that differs is a gate's doing."""
    shops = Shops(tmp_path)
    shops.prepare(data.store)
    catalog = make_catalog(shops)
    for number, task in enumerate(data.tasks):
        tenant = f"t{number}"
        store = shops.open(tenant)
        for step in task.steps:
            who = _customer(task.customer or "visitor", tenant)
            tool = catalog.get(step.tool)
            assert tool is not None
            assert _run(tool, step.arguments, ToolContext(f"{number}-{step.number}", 0, 0, who)) == (step.ok, step.answer)
        assert store.digest() == task.store_sha256


async def test_tools_that_no_task_uses_pass_the_gates_too(data: Data, tmp_path: Path) -> None:
    """B1: no recorded task changes a payment or lists products; what the tool itself answers is what is compared."""
    order_id, method = next(_other_payments(data))
    customer = data.store["orders"][order_id]["user_id"]
    asked = (
        ("list_all_product_types", {}),
        ("modify_pending_order_payment", {"order_id": order_id, "payment_method_id": method}),
    )
    shops = Shops(tmp_path)
    shops.prepare(data.store)
    store, catalog, steps = shops.open("t"), make_catalog(shops), []
    for number, (name, arguments) in enumerate(asked):
        tool = catalog.get(name)
        assert tool is not None
        ok, answer = _run(tool, arguments, ToolContext(f"k{number}", 0, 0, _customer(customer, "t")))
        steps.append(Step(number, name, arguments, ok, answer))
    task = Task("made", customer, f"Please pay {order_id} with {method}.", tuple(steps), store.digest())
    counts = await retail.measure(Data(data.store, (task,)), Breeder(data), "memory", tmp_path / "gates")
    assert counts.wrong == []
    assert retail.in_order(counts)
    assert counts.held == {"policy": 1}, "the customer has named order and payment, so only the policy asks"


def _other_payments(data: Data) -> Iterator[tuple[str, str]]:
    """(order, another method of its customer that covers it) of pending orders."""
    for order in data.store["orders"].values():
        (paid, *more) = order["payment_history"]
        methods = data.store["users"][order["user_id"]]["payment_methods"].values()
        others = (each for each in methods if each["id"] != paid["payment_method_id"])
        if order["status"] == "pending" and not more:
            yield from ((order["order_id"], m["id"]) for m in others if m.get("balance", paid["amount"]) >= paid["amount"])


def _run(tool: Any, arguments: Any, ctx: ToolContext) -> tuple[bool, Any]:
    try:
        answer = tool.run(tool.land(arguments), ctx)
    except ToolError as fault:
        return False, fault.sentence
    return True, answer.content if isinstance(answer, Committed) else answer


def _customer(subject: str, tenant: str) -> Principal:
    return Principal(
        issuer="i", subject=subject, tenant=tenant, person="", groups=("customers",), agent="retail-agent", service=False
    )  # fmt: skip


def test_the_contracts_take_the_parameters_of_the_data(catalog: Catalog) -> None:
    """C2: the same tools with the same fields; the contracts only say more exactly what a field may hold."""
    given = json.loads((shared_path("data/retail") / "tools.json").read_text())
    assert {tool.name for tool in catalog} == given.keys()
    for tool in catalog:
        parameters = given[tool.name]["parameters"]
        assert tool.schema.get("properties", {}).keys() == parameters["properties"].keys()
        assert set(tool.schema.get("required", ())) == set(parameters["required"])
        assert (tool.risk is not Risk.READ) == (tool.name in WRITES or tool.name == "transfer_to_human_agents")
        assert (given[tool.name]["kind"] == "write") == (tool.name in WRITES)


def test_the_catalog_has_nothing_to_mend(catalog: Catalog) -> None:
    """C3."""
    assert check_catalog(catalog) == []
    assert load_policies(catalog).groups == {"confirmers"}


def test_neither_rules_nor_policies_nor_tools_name_a_value_of_a_task(data: Data) -> None:
    """B1: they are the shop's policy, not the answers to these tasks."""
    text = "\n".join(path.read_text() for path in (HERE / "retail_shop").iterdir() if path.is_file())
    accepted = {"no longer needed", "ordered by mistake"}  # policy.md: no other reason is acceptable
    values = {value for task in data.tasks for step in task.steps for value in _texts(step.arguments)} - accepted
    values |= {task.customer for task in data.tasks if task.customer} | {task.request for task in data.tasks}
    assert sorted(value for value in values if len(value) > 3 and value in text) == []


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(inner)


def test_mutants_are_the_same_for_the_same_seed(data: Data, tmp_path: Path) -> None:
    """B1: what was found once is found again."""
    shops = Shops(tmp_path)
    shops.prepare(data.store)
    store, task = shops.open("t"), data.tasks[0]
    first, again, other = (
        [Breeder(data, seed).before(task, step, store) for step in task.steps] for seed in (1, 1, 2)
    )  # fmt: skip
    assert first == again != other


@pytest.mark.parametrize(
    ("expression", "value"),
    [("1 + 2 * 3", "7.0"), ("(1 + 2) * 3", "9.0"), ("-1.005 + 2", "1.0"), ("10 / 4", "2.5"), ("0.1 + 0.2", "0.3")],
)
def test_the_calculator_works_sums_out(expression: str, value: str) -> None:
    """R7."""
    assert calculate(expression) == value


@pytest.mark.parametrize("expression", ["1 / 0", "2 ** 3", "9 // 2", "1 +", "()", "((((", "1e999 * 2", "a"])
def test_the_calculator_refuses_what_is_no_sum(expression: str) -> None:
    """R7: a declared error, whatever the text is."""
    with pytest.raises(ValueError):
        calculate(expression)
