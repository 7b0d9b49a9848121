"""One call of a host: the same key however often it is asked, the first final answer, and always an observation."""

from __future__ import annotations

import asyncio

import pytest

from fourgates.contract import ids
from fourgates.contract.codes import CODES, Code, CodeClass
from fourgates.contract.events import CallRequested, RequestKind
from fourgates.contract.observation import Observation
from fourgates.contract.topology import HORIZON
from fourgates.sdk import Answer, RunStopped
from support.sdk import host, ok, pass_time, says
from support.tokens import NOW_MS, token

MINUTE = 60.0


async def test_key_is_derived_from_the_tokens_own_claims() -> None:
    """C9: what the validator derives from the verified token is what the host derived from its own."""
    async with host(ok, token(agent="support-bot")) as (run, pipeline, _):
        answer = await run.call("read_order", "{}", tool_call_id="call-1")
        who = pipeline.principals[0]
        expected = ids.call_id(who.issuer, who.tenant, who.subject, who.agent, run.id, "call-1")
        assert who.agent == "support-bot"
        assert answer.call_id == pipeline.asked[0].call_id == expected


async def test_key_that_the_model_writes_changes_nothing() -> None:
    """C9: whatever stands in the arguments travels as they are, for the gate to refuse."""
    async with host(ok) as (run, pipeline, _):
        one = await run.call("pay", '{"call_id": "x", "token": "y"}', tool_call_id="call-1")
        assert pipeline.asked[0].arguments == '{"call_id": "x", "token": "y"}'
        assert one.call_id == pipeline.asked[0].call_id


async def test_request_carries_raw_text_deadline_and_run() -> None:
    async with host(ok, intent="refund A-1") as (run, pipeline, _):
        await run.call("refund", '{"a": 1 ,', tool_call_id="call-1", budget=9)
        request = pipeline.asked[0]
        assert (request.kind, request.tool, request.arguments) == (RequestKind.CALL, "refund", '{"a": 1 ,')
        assert (request.run_id, request.tool_call_id, request.intent) == (run.id, "call-1", "refund A-1")
        assert request.deadline_ms == NOW_MS + 9_000
        assert ids.run_started_ms(run.id) == NOW_MS


async def test_grant_is_made_once_for_a_run() -> None:
    """P1"""
    async with host(ok) as (run, pipeline, _):
        for number in range(3):
            await run.call("read", "{}", tool_call_id=str(number))
        assert len({request.grant for request in pipeline.asked}) == 1
    async with host(ok) as (_, other, _):
        pass
    assert not other.asked


async def test_renewed_token_makes_a_new_grant_and_keeps_the_key() -> None:
    """P1"""
    tokens = [token(ttl_s=10), token(ttl_s=20)]
    async with host(ok, lambda: tokens[0]) as (run, pipeline, _):
        one = await run.call("read", "{}", tool_call_id="1")
        tokens.pop(0)
        two = await run.call("read", "{}", tool_call_id="1")
        assert one.call_id == two.call_id
        assert pipeline.asked[0].grant != pipeline.asked[1].grant


async def test_token_of_somebody_else_ends_in_an_error_of_the_host() -> None:
    """P1"""
    tokens = [token(), token(subject="bob")]

    async def renewed() -> str:
        return tokens[0]

    async with host(ok, renewed) as (run, pipeline, _):
        await run.call("read", "{}", tool_call_id="1")
        tokens.pop(0)
        with pytest.raises(ValueError, match="another principal"):
            await run.call("read", "{}", tool_call_id="2")
        assert len(pipeline.asked) == 1


async def test_token_that_cannot_be_read_is_named_and_not_shown() -> None:
    """P1"""
    async with host(ok, "a-secret-token") as (run, _, _):
        with pytest.raises(ValueError, match="token_unreadable") as caught:
            await run.call("read", "{}", tool_call_id="1")
        assert "a-secret-token" not in str(caught.value)


@pytest.mark.parametrize(
    "code", [c for c in Code if CODES[c].code_class not in (CodeClass.WAITING, CodeClass.IN_DOUBT, CodeClass.INTERNAL)]
)
async def test_answer_that_needs_no_waiting_returns_at_once(code: Code) -> None:
    async with host(says(code, reason="why")) as (run, _, clock):
        answer = await run.call("read", "{}", tool_call_id="call-1")
        assert (answer.code, answer.reason, answer.tool_call_id) == (code, "why", "call-1")
        assert clock.monotonic() == 0


@pytest.mark.parametrize("code", [Code.APPROVAL_PENDING, Code.IN_DOUBT, Code.CANCEL_TOO_LATE])
async def test_open_answer_is_returned_when_the_wait_is_over(code: Code) -> None:
    async with host(says(code)) as (run, _, clock):
        asking = asyncio.create_task(run.call("refund", "{}", tool_call_id="call-1", wait=5))
        await pass_time(clock, 4.8)
        assert not asking.done()
        await pass_time(clock, 0.4)
        assert (await asking).code is code


async def test_final_answer_after_approval_ends_the_wait() -> None:
    async with host(says(Code.APPROVAL_PENDING)) as (run, pipeline, clock):
        asking = asyncio.create_task(run.call("refund", "{}", tool_call_id="call-1", wait=30))
        await pass_time(clock, 2)
        pipeline.tell(ok(pipeline.asked[0]))
        assert (await asking).ok
        assert clock.monotonic() == pytest.approx(2)


async def test_wait_goes_on_where_call_ended() -> None:
    async with host(says(Code.APPROVAL_PENDING)) as (run, pipeline, clock):
        asking = asyncio.create_task(run.call("refund", "{}", tool_call_id="call-1", wait=0))
        await pass_time(clock, 0.1)
        pending = await asking
        waiting = asyncio.create_task(run.wait(pending.call_id, timeout=20))
        await pass_time(clock, 1)
        pipeline.tell(ok(pipeline.asked[0]))
        assert (await waiting).ok
        assert (await run.wait(pending.call_id)).ok
        assert len(pipeline.asked) == 1
        with pytest.raises(KeyError):
            await run.wait("0" * 64)


async def test_lost_answer_is_asked_for_again_with_the_same_key() -> None:
    """E1: each time an event of its own, or its answer would count as told already; until something answers."""
    async with host() as (run, pipeline, clock):
        asking = asyncio.create_task(run.call("refund", '{"a":1}', tool_call_id="call-1", wait=60))
        await pass_time(clock, 21)
        assert len(pipeline.asked) == 3
        assert len({(r.call_id, r.tool, r.arguments, r.grant) for r in pipeline.asked}) == 1
        assert len({r.event_id for r in pipeline.asked}) == 3
        pipeline.tell(ok(pipeline.asked[0]))
        assert (await asking).ok


async def test_call_that_waits_for_people_is_asked_for_rarely() -> None:
    async with host(says(Code.APPROVAL_PENDING)) as (run, pipeline, clock):
        asking = asyncio.create_task(run.call("refund", "{}", tool_call_id="call-1", wait=2 * MINUTE))
        await pass_time(clock, 2 * MINUTE + 1)
        assert (await asking).code is Code.APPROVAL_PENDING
        assert len(pipeline.asked) <= 4


async def test_asking_after_a_held_call_does_not_end_it_by_its_first_deadline() -> None:
    """E8: waiting for people is not counted, so each repetition has its whole budget."""
    async with host(says(Code.APPROVAL_PENDING)) as (run, pipeline, clock):
        asking = asyncio.create_task(run.call("refund", "{}", tool_call_id="call-1", wait=3 * MINUTE, budget=30))
        await pass_time(clock, 3 * MINUTE + 1)
        await asking
        assert len(pipeline.asked) == 3
        assert [r.deadline_ms - NOW_MS for r in pipeline.asked] == [
            pytest.approx(seconds * 1000, abs=500) for seconds in (30, 90, 150)
        ]


async def test_request_that_never_reached_the_log_keeps_its_deadline() -> None:
    """E8"""
    async with host() as (run, pipeline, clock):
        pipeline.away = True
        asking = asyncio.create_task(run.call("refund", "{}", tool_call_id="call-1", wait=30, budget=9))
        await pass_time(clock, 20)
        pipeline.away = False
        await pass_time(clock, 1)
        assert [r.deadline_ms - NOW_MS for r in pipeline.asked] == [pytest.approx(9_000, abs=100)]
        pipeline.tell(ok(pipeline.asked[0]))
        await asking


async def test_no_answer_at_all_is_unavailable_and_does_not_say_that_nothing_ran() -> None:
    """E1"""
    async with host() as (run, _, clock):
        asking = asyncio.create_task(run.call("refund", "{}", tool_call_id="call-1", wait=3))
        await pass_time(clock, 3.2)
        answer = await asking
        assert (answer.code, answer.reason, answer.final) == (Code.UNAVAILABLE, "no_answer_yet", False)
        assert "nothing ran" not in answer.to_json()
        assert len(answer.call_id) == 64


async def test_call_without_waiting_is_published_all_the_same() -> None:
    async with host() as (run, pipeline, _):
        assert (await run.call("refund", "{}", tool_call_id="1", wait=0)).reason == "no_answer_yet"
        assert len(pipeline.asked) == 1


async def test_log_that_is_away_is_tried_until_it_is_back() -> None:
    async with host(ok) as (run, pipeline, clock):
        pipeline.away = True
        asking = asyncio.create_task(run.call("refund", "{}", tool_call_id="1", wait=30))
        await pass_time(clock, 5)
        assert not asking.done()
        pipeline.away = False
        await pass_time(clock, 1)
        assert (await asking).ok


async def test_gap_in_the_answers_is_asked_about_at_once() -> None:
    """E1"""
    async with host() as (run, pipeline, clock):
        asking = asyncio.create_task(run.call("refund", "{}", tool_call_id="1", wait=30))
        await pass_time(clock, 1)
        pipeline.reply = ok
        pipeline.gap()
        assert (await asking).ok
        assert len(pipeline.asked) == 2
        assert clock.monotonic() == pytest.approx(1)


async def test_first_final_answer_is_kept() -> None:
    """E1: byte for byte, whatever comes later, and also when the call is asked again."""
    async with host(ok) as (run, pipeline, clock):
        first = await run.call("refund", "{}", tool_call_id="call-1")
        pipeline.tell(Observation(Code.TOOL_FAILED, first.call_id))
        pipeline.reply = lambda request: ok(request, "other")
        await pass_time(clock, 9 * MINUTE)
        again = await run.call("refund", "{}", tool_call_id="call-1")
        assert again.to_json() == first.to_json()
        assert len(pipeline.asked) == 2


async def test_read_is_read_afresh_after_ten_minutes() -> None:
    """E1"""
    async with host(ok) as (run, pipeline, clock):
        first = await run.call("read", "{}", tool_call_id="call-1")
        pipeline.reply = lambda request: ok(request, "newer")
        await pass_time(clock, 10 * MINUTE + 1)
        assert (first.content, (await run.call("read", "{}", tool_call_id="call-1")).content) == ("done", "newer")


async def test_known_final_answer_is_given_where_nothing_comes_any_more() -> None:
    """E1"""
    async with host(ok) as (run, pipeline, clock):
        first = await run.call("refund", "{}", tool_call_id="call-1")
        pipeline.away = True
        asking = asyncio.create_task(run.call("refund", "{}", tool_call_id="call-1", wait=2))
        await pass_time(clock, 2.2)
        assert (await asking).to_json() == first.to_json()


async def test_same_key_asked_at_once_gets_one_answer() -> None:
    """E1"""
    async with host() as (run, pipeline, _):
        asking = [asyncio.create_task(run.call("refund", "{}", tool_call_id="call-1")) for _ in range(5)]
        pipeline.tell(ok(await pipeline.requests(5)))
        assert len({answer.to_json() for answer in await asyncio.gather(*asking)}) == 1


async def test_run_continued_after_a_restart_uses_the_same_key() -> None:
    """E1"""
    run_id = ids.new_run_id(NOW_MS)
    seen = []
    for _ in range(2):
        async with host(ok, run_id=run_id) as (run, pipeline, _):
            await run.call("refund", "{}", tool_call_id="call-1")
            seen.append(pipeline.asked[0].call_id)
    assert seen[0] == seen[1]


async def test_conflict_answers_the_ask_that_differs_and_not_the_first() -> None:
    async with host() as (run, pipeline, _):
        first = asyncio.create_task(run.call("refund", '{"a":1}', tool_call_id="call-1"))
        request = await pipeline.requests(1)
        other = asyncio.create_task(run.call("refund", '{"a":2}', tool_call_id="call-1"))
        await pipeline.requests(2)
        pipeline.tell(Observation(Code.IDEMPOTENCY_CONFLICT, request.call_id))
        assert (await other).code is Code.IDEMPOTENCY_CONFLICT
        assert not first.done()
        pipeline.tell(ok(request))
        assert (await first).ok


async def test_ask_that_differs_never_gets_the_first_ones_result() -> None:
    def answer(request: CallRequested) -> Observation | None:
        return Observation(Code.IDEMPOTENCY_CONFLICT, request.call_id) if '"a":2' in request.arguments else None

    async with host() as (run, pipeline, clock):
        first = asyncio.create_task(run.call("refund", '{"a":1}', tool_call_id="call-1", wait=60))
        request = await pipeline.requests(1)
        other = asyncio.create_task(run.call("refund", '{"a":2}', tool_call_id="call-1", wait=60))
        await pipeline.requests(2)
        pipeline.tell(ok(request))
        assert (await first).ok
        pipeline.reply = answer
        await pass_time(clock, 11)
        assert (await other).code is Code.IDEMPOTENCY_CONFLICT


async def test_conflict_of_the_only_ask_is_told() -> None:
    """E2: another process used the key for something else before."""
    async with host(says(Code.IDEMPOTENCY_CONFLICT)) as (run, _, _):
        assert (await run.call("refund", "{}", tool_call_id="1")).code is Code.IDEMPOTENCY_CONFLICT


async def test_cancel_is_the_same_call_under_the_same_run_key() -> None:
    def answer(request: CallRequested) -> Observation:
        return Observation(Code.CANCELLED if request.kind is RequestKind.CANCEL else Code.APPROVAL_PENDING, request.call_id)

    async with host(answer) as (run, pipeline, clock):
        asking = asyncio.create_task(run.call("refund", "{}", tool_call_id="1", wait=30))
        request = await pipeline.requests(1)
        await pass_time(clock, 0.1)
        assert (await run.cancel(request.call_id)).code is Code.CANCELLED
        assert (await asking).code is Code.CANCELLED
        cancel = pipeline.asked[1]
        assert (cancel.kind, cancel.call_id, cancel.grant) == (RequestKind.CANCEL, request.call_id, request.grant)
        assert cancel.event_id != request.event_id


@pytest.mark.parametrize("code", [Code.INTERNAL, Code.RUN_STOPPED])
async def test_internal_error_raises_and_ends_the_run(code: Code) -> None:
    """S6"""
    async with host(says(code, reason="why")) as (run, pipeline, _):
        with pytest.raises(RunStopped) as caught:
            await run.call("refund", "{}", tool_call_id="1")
        assert (caught.value.answer.code, caught.value.answer.reason) == (code, "why")
        with pytest.raises(RunStopped) as later:
            await run.call("read", "{}", tool_call_id="2")
        assert later.value.answer.code is Code.RUN_STOPPED
        assert len(pipeline.asked) == 1


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"code": "from_the_future"}', '{"code":"ok"}', "null", "1"])
async def test_answer_that_this_build_cannot_read_ends_the_run(text: str) -> None:
    """S6"""
    async with host() as (run, pipeline, _):
        asking = asyncio.create_task(run.call("refund", "{}", tool_call_id="1"))
        pipeline.tell(ok(await pipeline.requests(1)), text)
        with pytest.raises(RunStopped, match="unreadable_answer"):
            await asking


async def test_answers_to_other_hosts_are_not_looked_at() -> None:
    async with host() as (run, pipeline, _):
        asking = asyncio.create_task(run.call("refund", "{}", tool_call_id="1"))
        request = await pipeline.requests(1)
        pipeline.tell(Observation(Code.OK, "0" * 64, content="not yours"), "damaged")
        pipeline.tell(ok(request, "yours"))
        assert (await asking).content == "yours"


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "reason"),
    [
        ("read", '{"a":"' + "x" * 10_000_000 + '"}', Code.INVALID_ARGUMENTS, "too_large"),
        ("read", '{"a":"' + "ä" * 140_000 + '"}', Code.INVALID_ARGUMENTS, "too_large"),
        ("read", '{"a":"\ud800"}', Code.INVALID_ARGUMENTS, "lone_surrogate"),
        ("read", "\ud800", Code.INVALID_ARGUMENTS, "malformed_json"),
        ("r" * 300, "{}", Code.UNKNOWN_TOOL, "bad_name"),
        ("\udfff", "{}", Code.UNKNOWN_TOOL, "bad_name"),
    ],
    ids=["10 MB", "wide characters", "lone surrogate", "no JSON at all", "long name", "name is no text"],
)
async def test_what_no_record_can_carry_is_refused_by_the_sdk_itself(tool: str, arguments: str, code: Code, reason: str) -> None:
    """S2"""
    async with host() as (run, pipeline, _):
        answer = await run.call(tool, arguments, tool_call_id="call-1")
        assert (answer.code, answer.reason, answer.tool_call_id, answer.recoverable) == (code, reason, "call-1", True)
        assert not pipeline.asked
        assert len(answer.call_id) == 64
        Answer.from_json(answer.to_json())


async def test_largest_arguments_that_are_allowed_fit_a_record() -> None:
    """S2"""
    book = "word " * 40_000
    async with host(ok, user_turns=[book, "x" * 131_000], intent="i" * 16_000) as (run, pipeline, _):
        run.saw("page", " ".join(f"w{n}" for n in range(2_000)))
        for count, filler in ((34_000, ""), (1_900, "x" * 220_000)):
            raw = '{"a":[' + ",".join(f'"w{n % 2000}"' for n in range(count)) + f'],"b":"{filler}"}}'
            assert 230_000 < len(raw) < 262_144
            assert (await run.call("read", raw, tool_call_id=str(count))).ok
            assert pipeline.asked[-1].arguments == raw
            assert len(pipeline.asked[-1].origins) >= 1_900


@pytest.mark.parametrize("bad", ["", "x" * 257, "a\nb", "\ud800"])
async def test_tool_call_id_that_is_no_id_is_an_error_of_the_host(bad: str) -> None:
    async with host() as (run, _, _):
        with pytest.raises(ValueError, match="tool_call_id"):
            await run.call("read", "{}", tool_call_id=bad)


async def test_parsed_arguments_are_written_as_json() -> None:
    """S2: Anthropic's client gives objects."""
    async with host(ok) as (run, pipeline, _):
        await run.call("read", {"name": "Jörg", "n": 1}, tool_call_id="1")
        assert pipeline.asked[0].arguments == '{"name": "Jörg", "n": 1}'


async def test_principal_and_intent_are_checked_when_the_run_is_made() -> None:
    with pytest.raises(ValueError, match="intent"):
        async with host(intent="x" * 20_000):
            pass
    with pytest.raises(ValueError, match="UUIDv7"):
        async with host(run_id="run-1"):
            pass


async def test_a_call_that_people_hold_beyond_the_horizon_is_listened_for_and_not_asked_for_again() -> None:
    """A5, E1: asked for again it would end as `call_too_old`, while people still may say yes to it."""
    almost = NOW_MS - round((HORIZON.total_seconds() - 35 * MINUTE) * 1000)
    async with host(says(Code.APPROVAL_PENDING), run_id=ids.new_run_id(almost)) as (run, pipeline, clock):
        pending = await run.call("pay", "{}", tool_call_id="1", wait=0)
        waiting = asyncio.create_task(run.wait(pending.call_id, timeout=40 * MINUTE))
        await pass_time(clock, 3 * MINUTE)
        asked = len(pipeline.asked)
        assert asked > 1, "while its key is remembered it is asked for, if rarely"
        await pass_time(clock, 6 * MINUTE)
        later = len(pipeline.asked)
        pipeline.gap()
        await pass_time(clock, 6 * MINUTE)
        assert len(pipeline.asked) == later <= asked + 2 and not waiting.done()
        pipeline.tell(ok(pipeline.asked[0]))
        assert (await waiting).ok
