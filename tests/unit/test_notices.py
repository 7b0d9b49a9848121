"""Notices: people are told, reminded and warned in time, once each as far as a log without a database allows."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from fourgates.approval.notices import Hook, NoticeSettings, Notifier
from fourgates.approval.notices.journal import Journal
from fourgates.approval.notices.schedule import due, times_of
from fourgates.approval.notices.settings import Form, NoticeKind
from fourgates.approval.notices.signing import HEADER, ID_HEADER, TOLERANCE_S, signature, verified
from fourgates.approval.notices.wording import Notice, body
from fourgates.contract.events import ApprovalKind
from fourgates.gates.approval import ApprovalFold, HoldState, proven_by
from fourgates.runtime.memory_worker import MemoryWorker
from support.approvals import decided, held, log_of, person, requested
from support.waiting import Waiting, call_of, keyring, sealed

SECRET = "notices-" + "s" * 16
URL = "https://hooks.example/T0/fourgates"
H = "a" * 32
HOUR = 20.0
"""In the short days of these tests: a question has eight of them, people are reminded after a half and warned at the seventh."""
ALL = tuple(NoticeKind)


def hook(**other: Any) -> Hook:
    return Hook(**({"url": URL, "secret": SECRET, "tenant": "acme"} | other))


class Net:
    """Takes what is posted; answers with the next of `answers`, else 200."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.answers: list[httpx.Response | Exception] = []
        self.http = httpx.AsyncClient(transport=httpx.MockTransport(self._take))

    def _take(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else httpx.Response(200)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]

    @property
    def kinds(self) -> list[str]:
        return [said["kind"] for said in self.bodies]


@pytest.fixture
def net() -> Net:
    return Net()


def notifier(world: Waiting, net: Net, folder: Path, *hooks: Hook) -> Notifier:
    settings = NoticeSettings(
        hooks=hooks or (hook(),), page="https://approvals.example/", remind_after_s=HOUR / 2, escalate_before_s=HOUR
    )
    return Notifier(world.bus, proven_by(keyring().verifier()), world.clock, net.http, Journal(folder / "told"), settings)


async def ask(world: Waiting, worker: MemoryWorker, hold_id: str = H, wait_s: float = 8 * HOUR, **other: Any) -> None:
    call = other.pop("call", None) or call_of(world.shop)
    await world.hold(hold_id, call, verdicts=sealed(call), expires_ms=world.clock.now_ms() + round(wait_s * 1000), **other)
    await world.settle(worker)


async def pass_time(world: Waiting, seconds: float, step: float = 0.6) -> None:
    for _ in range(max(round(seconds / step), 1)):
        await world.clock.advance(step)


def asked(expires_ms: int | None = 8_000_000, now_ms: int = 1_000_000) -> HoldState:
    fold = ApprovalFold(lambda envelope: True)
    for envelope in log_of([(now_ms, held("h", expires_ms=expires_ms)), (now_ms, requested("h"))]):
        fold.apply(envelope)
    hold = fold.hold("h")
    assert hold is not None
    return hold


async def test_people_are_told_reminded_and_warned_before_it_expires(
    world: Waiting, worker: MemoryWorker, net: Net, tmp_path: Path
) -> None:
    """A11"""
    async with notifier(world, net, tmp_path):
        await ask(world, worker)
        await pass_time(world, 1)
        assert net.kinds == ["asked"]
        await pass_time(world, 0.6 * HOUR)
        assert net.kinds == ["asked", "reminder"]
        await pass_time(world, 6.5 * HOUR)
        assert net.kinds == ["asked", "reminder", "escalation"]
        await pass_time(world, HOUR)
    assert net.kinds == ["asked", "reminder", "escalation"]
    assert len({said["notice_id"] for said in net.bodies}) == 3
    assert [request.headers[ID_HEADER] for request in net.requests] == [said["notice_id"] for said in net.bodies]


@pytest.mark.parametrize("form", Form)
async def test_no_form_carries_arguments_or_anything_that_an_agent_wrote(
    form: Form, world: Waiting, worker: MemoryWorker, net: Net, tmp_path: Path
) -> None:
    """A11: a deep link, and what our own contract says; whoever may see the rest signs in."""
    call = call_of(world.shop, arguments={"order_id": "GEHEIM-77", "amount": 4_711})
    call = dataclasses.replace(call, intent="GEHEIM intent")
    async with notifier(world, net, tmp_path, hook(form=form, to=("finance@example.com",))):
        await ask(world, worker, call=call, detail='{"quote": "GEHEIM"}', facts='{"GEHEIM": 1}')
        await pass_time(world, 1)
    (request,) = net.requests
    text = request.content.decode()
    assert "GEHEIM" not in text and "4711" not in text and "anna" not in text
    assert f"https://approvals.example/holds/{H}" in text and "refund_order" in text
    said = json.loads(text)
    match form:
        case Form.SLACK:
            button = said["blocks"][1]["elements"][0]
            assert button["url"].endswith(f"/holds/{H}") and said["blocks"][0]["text"]["type"] == "mrkdwn" and said["text"]
        case Form.EMAIL:
            assert said["to"] == ["finance@example.com"] and said["subject"] and said["html"].startswith("<p>")
        case Form.PLAIN:
            assert (said["tenant"], said["group"], said["risk"], said["reason"]) == ("acme", "finance", "write", "risk")


async def test_a_name_cannot_become_markup(world: Waiting, net: Net) -> None:
    """A11: neither a mention of everybody in Slack nor a link in a mail."""
    wild = asked()._replace(group='<!channel> <a href="https://evil.example">ops</a>')
    notice = Notice(wild, NoticeKind.ASKED, "https://approvals.example")
    slack = json.loads(body(notice, hook(form=Form.SLACK)))["blocks"][0]["text"]["text"]
    email = json.loads(body(notice, hook(form=Form.EMAIL, to=("x@example.com",))))["html"]
    assert "<" not in slack and "&lt;!channel&gt;" in slack
    assert '<a href="https://evil' not in email and "&lt;!channel&gt;" in email


async def test_what_is_sent_is_signed_with_its_time(world: Waiting, worker: MemoryWorker, net: Net, tmp_path: Path) -> None:
    """A11"""
    async with notifier(world, net, tmp_path):
        await ask(world, worker)
        await pass_time(world, 1)
    (request,) = net.requests
    now_s, header = world.clock.now_ms() / 1000, request.headers[HEADER]
    assert verified(SECRET, header, request.content, now_s)
    assert not verified(SECRET, header, request.content + b" ", now_s)
    assert not verified("another secret", header, request.content, now_s)
    assert not verified(SECRET, header, request.content, now_s + TOLERANCE_S + 10)
    assert not verified(SECRET, signature(SECRET, int(now_s), b"another body"), request.content, now_s)
    assert SECRET.encode() not in request.content and SECRET not in str(dict(request.headers))


@pytest.mark.parametrize("header", ["", "t=,v1=", "v1=abc", "t=x,v1=y", "t=1", "t=-5,v1=a", "t=²,v1=a"])
def test_a_broken_signature_is_no_signature(header: str) -> None:
    """A11"""
    assert not verified(SECRET, header, b"{}", 1.0)


async def test_it_is_sent_again_until_it_arrives_and_each_time_with_the_same_id(
    world: Waiting, worker: MemoryWorker, net: Net, tmp_path: Path
) -> None:
    """A11: refused, answered with an error, redirected, out of reach: tried again, ever more rarely, never elsewhere."""
    net.answers = [
        httpx.ConnectError("away"), httpx.Response(500), httpx.Response(307, headers={"Location": "https://evil.example"}),
        httpx.Response(429, headers={"Retry-After": "20"}),
    ]  # fmt: skip
    async with notifier(world, net, tmp_path, hook(kinds={NoticeKind.ASKED})):
        await ask(world, worker)
        await pass_time(world, 9)
        assert len(net.requests) == 4, "the receiver asked for twenty seconds, and gets them"
        await pass_time(world, 20)
        assert len(net.requests) == 5
        await pass_time(world, 60)
    assert len(net.requests) == 5 and {str(request.url) for request in net.requests} == {URL}
    assert len({request.headers[ID_HEADER] for request in net.requests}) == 1


async def test_nobody_hears_of_another_tenant_or_of_what_their_group_cannot_decide(
    world: Waiting, worker: MemoryWorker, net: Net, tmp_path: Path
) -> None:
    """A11"""
    hooks = (
        hook(url=URL + "/other", tenant="other"), hook(url=URL + "/kitchen", groups={"kitchen"}),
        hook(url=URL + "/finance", groups={"finance"}), hook(url=URL + "/boss", kinds={"escalation"}),
    )  # fmt: skip
    async with notifier(world, net, tmp_path, *hooks):
        await ask(world, worker)
        await pass_time(world, 1)
        assert [request.url.path for request in net.requests] == ["/T0/fourgates/finance"]
        await pass_time(world, 7.1 * HOUR)
    assert [request.url.path for request in net.requests if json.loads(request.content)["kind"] == "escalation"] == [
        "/T0/fourgates/finance", "/T0/fourgates/boss",
    ]  # fmt: skip


async def test_what_is_decided_is_not_told_any_more(world: Waiting, worker: MemoryWorker, net: Net, tmp_path: Path) -> None:
    """A11: neither what was still to come, nor what had not arrived yet."""
    net.answers = [httpx.Response(503)] * 3
    async with notifier(world, net, tmp_path):
        await ask(world, worker)
        await pass_time(world, 1)
        tried = len(net.requests)
        shown = world.approvals(ApprovalKind.REQUESTED)[0].record
        digest = shown.requested.shown_digest
        await world.publish("approver", decided(H, "deny", person("ben"), call_id=shown.call_id, shown_digest=digest))
        await world.settle(worker)
        await pass_time(world, 7.9 * HOUR)
    assert tried >= 1 and len(net.requests) == tried


async def test_a_restart_tells_nothing_twice_and_forgets_nothing(
    world: Waiting, worker: MemoryWorker, net: Net, tmp_path: Path
) -> None:
    """A11: what arrived is remembered; what had not, and what came due meanwhile, is told by who comes next."""
    async with notifier(world, net, tmp_path):
        await ask(world, worker)
        await pass_time(world, 1)
        net.answers = [httpx.Response(503)] * 100
        await ask(world, worker, "b" * 32, call=call_of(world.shop, call_id="b" * 64))
        await pass_time(world, 1)
    net.answers.clear()
    before = len(net.requests)
    async with notifier(world, net, tmp_path):
        await pass_time(world, 1)
        assert [said["hold_id"] for said in net.bodies[before:]] == ["b" * 32]
    await pass_time(world, 7.2 * HOUR)
    async with notifier(world, net, tmp_path):
        await pass_time(world, 1)
    assert [(said["hold_id"][0], said["kind"]) for said in net.bodies[before + 1 :]] == [("a", "escalation"), ("b", "escalation")]


async def test_without_the_journal_people_hear_twice_rather_than_not_at_all(
    world: Waiting, worker: MemoryWorker, net: Net, tmp_path: Path
) -> None:
    """A11: at least once, with the same id."""
    for name in ("one", "two"):
        async with notifier(world, net, tmp_path / name):
            if name == "one":
                await ask(world, worker)
            await pass_time(world, 1)
    first, second = net.bodies
    assert first["notice_id"] == second["notice_id"]


async def test_a_receiver_that_hangs_holds_up_no_other(world: Waiting, worker: MemoryWorker, tmp_path: Path) -> None:
    """A11"""
    heard: list[str] = []

    async def take(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("slow"):
            await asyncio.Event().wait()
        heard.append(request.url.path)
        return httpx.Response(200)

    net = Net()
    net.http = httpx.AsyncClient(transport=httpx.MockTransport(take))
    async with notifier(world, net, tmp_path, hook(url=URL + "/slow"), hook(url=URL + "/quick")):
        for number in range(8):
            await ask(world, worker, f"{number:032x}", call=call_of(world.shop, call_id=f"{number:064x}"))
        await pass_time(world, 2)
    assert heard == ["/T0/fourgates/quick"] * 8


def test_times_of_a_short_wait_are_still_in_order() -> None:
    """A11: ten seconds to decide: reminded at half of it, warned at three quarters; a doubt by its own measure."""
    short = times_of(asked(expires_ms=1_010_000), NoticeSettings())
    assert list(short.values()) == [1_000_000, 1_005_000, 1_007_500]
    doubt = times_of(asked()._replace(expires_ms=None), NoticeSettings())
    assert list(doubt.values()) == [1_000_000, 1_000_000 + 1_800_000, 1_000_000 + 14_400_000]


def test_only_the_latest_of_what_is_due_is_told() -> None:
    """A11: who was down does not send three messages about one call."""
    hold, settings = asked(), NoticeSettings()
    assert due(hold, settings, 7_900_000) is NoticeKind.ESCALATION
    assert due(hold, settings, 7_900_000, {NoticeKind.ASKED}) is NoticeKind.ASKED
    assert due(hold, settings, 8_000_000) is None and due(hold, settings, 999_999) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "http://hooks.example/x"}, {"url": "ftp://127.0.0.1/x"}, {"secret": "short"}, {"tenant": ""}, {"form": "email"},
        {"url": "http://127.0.0.1.evil.example/x"},
    ],
)  # fmt: skip
def test_a_hook_that_would_leak_or_could_be_forged_is_refused(wrong: dict[str, Any]) -> None:
    """A11"""
    with pytest.raises(ValidationError):
        hook(**wrong)


def test_hooks_on_this_machine_may_be_plain_http() -> None:
    """A11"""
    assert hook(url="http://127.0.0.1:9/x").url and hook(url="http://localhost/x").url
