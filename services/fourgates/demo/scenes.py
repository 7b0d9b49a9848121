"""The demo's scenes: what a model suggests, and what becomes of it. The same bodies run in tests and in `make demo`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fourgates.contract.codes import Code
from fourgates.demo.cast import INJECTED_ADDRESS
from fourgates.demo.forgery import forge_cleared
from fourgates.demo.play import Difference, Play
from fourgates.sdk import Answer, Run


@dataclass(frozen=True, slots=True)
class Scene:
    """One block of the story."""

    title: str
    words: str
    act: Callable[[], Awaitable[None]]


class Scenes:
    """All scenes in their order; some go on where an earlier one ended."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._refund: tuple[Run, Answer] | None = None
        self.explained = ""
        """The call that the audit is asked to explain in the end."""

    def all(self) -> tuple[Scene, ...]:
        """Title and narration of a scene are its method's docstring."""
        return tuple(
            _scene(act)
            for act in (
                self.a_read,
                self.a_misspelt_field,
                self.somebody_elses_order,
                self.a_frozen_order,
                self.a_lost_answer,
                self.the_same_call_again,
                self.a_near_duplicate,
                self.an_approved_refund,
                self.a_denied_refund,
                self.an_expired_refund,
                self.a_path_that_leads_out,
                self.a_secret_in_a_long_result,
                self.a_message_to_a_named_person,
                self.an_injected_instruction,
                self.a_forged_event,
            )
        )

    async def a_read(self) -> None:
        """A read.

        A clerk asks, the agent looks it up. Reads need a permit and pass every gate; they claim nothing.
        """
        play = self._play
        run = play.run("anna", "What is the state of order A-1001?")
        answer = await play.ask(run, "get_order", '{"order_id": "A-1001"}', "call_1")
        play.expect_answer(answer, Code.OK)
        play.expect("the lifted fields", dict(answer.fields), {"order_id": "A-1001", "status": "delivered"})
        play.narrator.right("answered, marked untrusted, key fields lifted")

    async def a_misspelt_field(self) -> None:
        """A misspelt field.

        The model writes a field that the contract does not have. It is told which, and corrects itself.
        """
        play = self._play
        run = play.run("anna", "Find the orders of Mira Holm.")
        answer = await play.ask(run, "search_orders", '{"custommer": "Mira Holm"}', "call_1")
        play.expect_answer(answer, Code.INVALID_ARGUMENTS, where="/custommer")
        play.expect_true("the model is told that it can mend this", answer.code_class.value == "invalid")
        answer = await play.ask(run, "search_orders", '{"customer": "Mira Holm"}', "call_2")
        play.expect_answer(answer, Code.OK)
        play.expect("the orders found", [order["id"] for order in json.loads(answer.content or "[]")], ["A-1001"])
        play.narrator.right("refused with the field's place, corrected, accepted")

    async def somebody_elses_order(self) -> None:
        """Somebody else's order.

        Not yours and not there get the same words, so nobody can find out what exists by asking.
        """
        play = self._play
        run = play.run("anna", "Show me orders A-2001 and A-9999.")
        theirs = await play.ask(run, "get_order", '{"order_id": "A-2001"}', "call_1")
        play.expect_answer(theirs, Code.RULE_VIOLATED, "not_yours", "/order_id")
        nobodys = await play.ask(run, "get_order", '{"order_id": "A-9999"}', "call_2")
        told = (theirs.code, theirs.reason, theirs.message)
        play.expect("what the model is told", (nobodys.code, nobodys.reason, nobodys.message), told)
        play.narrator.right("both get one code and one sentence")

    async def a_frozen_order(self) -> None:
        """A frozen order.

        A policy forbids every change of one order; no other permit outweighs a forbid.
        """
        play = self._play
        run = play.run("anna", "Refund 10 euros of order A-1007, it was late.")
        answer = await play.ask(run, "refund_order", _refund("A-1007", 1000, "late"), "call_1")
        play.expect_answer(answer, Code.PERMISSION_DENIED, "disputed-order-is-frozen")
        play.expect("requests at the provider", await play.requests_of(answer.call_id), [])
        play.narrator.right("denied by name; the provider was never asked")

    async def a_lost_answer(self) -> None:
        """A small refund whose answer is lost.

        Policy waives approval up to 50.00 EUR. The provider commits and hangs up.
        """
        play = self._play
        await play.premises.payments.lose_next()
        run = play.run("anna", "The kettle of order A-1001 came with a dent. Refund 15 euros.")
        answer = await play.ask(run, "refund_order", _refund("A-1001", 1500, "damaged"), "call_1")
        play.owed[answer.call_id] = 1500
        play.expect_answer(answer, Code.OK)
        await self._one_refund(answer, 1500)
        requests = await play.requests_of(answer.call_id)
        play.expect("the first request at the provider", requests[:1], ["lost"])
        how = "the same key, sent again" if len(requests) > 1 else "the probe"
        play.narrator.right(f"one refund; the true result was found by {how}")
        self._refund = (run, answer)

    async def the_same_call_again(self) -> None:
        """The same call again.

        Asked again with its own tool call id, a call gets its first answer, byte for byte.
        """
        play = self._play
        run, first = self._earlier()
        before = await play.requests_of(first.call_id)
        again = await play.ask(run, "refund_order", _refund("A-1001", 1500, "damaged"), "call_1")
        play.expect("the answer's bytes", again.to_json(), first.to_json())
        play.expect("requests at the provider", await play.requests_of(first.call_id), before)
        play.narrator.right("byte for byte the first answer; the provider was not asked again")

    async def a_near_duplicate(self) -> None:
        """The same refund as a new call.

        The model tries again under a new id. It is a near duplicate: a person is asked.
        """
        play = self._play
        run, first = self._earlier()
        answer = await play.ask(run, "refund_order", _refund("A-1001", 1500, "damaged"), "call_2")
        play.expect_answer(answer, Code.APPROVAL_PENDING)
        hold = await play.hold_of(answer, "ben")
        play.expect("why it is held", hold["shown"]["why"]["reason"], "near_duplicate")
        play.expect_true("the hold names the first call", first.call_id in json.dumps(hold["shown"]))
        await play.decide(hold, "ben", "deny", "It was refunded already.")
        play.expect_answer(await play.wait(run, answer.call_id), Code.APPROVAL_DENIED)
        play.expect("requests at the provider", await play.requests_of(answer.call_id), [])
        play.narrator.right("held beside the first call, denied; still one refund")

    async def an_approved_refund(self) -> None:
        """A large refund.

        Above 50.00 EUR somebody of the refunds group sees before and after, and says yes.
        """
        play = self._play
        run = play.run("anna", "Order A-1002 never worked. Refund all of it, 489 euros.")
        answer = await play.ask(run, "refund_order", _refund("A-1002", 48_900, "damaged"), "call_1")
        play.expect_answer(answer, Code.APPROVAL_PENDING)
        self.explained = answer.call_id
        hold = await play.hold_of(answer, "ben")
        preview = hold["shown"]["preview"]
        play.expect("before", preview["before"]["refunded_cents"], 0)
        play.expect("after", preview["after"]["refunded_cents"], 48_900)
        play.expect("requests at the provider before the decision", await play.requests_of(answer.call_id), [])
        await play.decide(hold, "ben", "approve", "Checked with the customer.")
        play.owed[answer.call_id] = 48_900
        play.expect_answer(await play.wait(run, answer.call_id), Code.OK)
        await self._one_refund(answer, 48_900)
        play.narrator.right("shown, approved over HTTP, run once")

    async def a_denied_refund(self) -> None:
        """A refund that is denied.

        A person says no; the tool's function is never entered.
        """
        play = self._play
        run = play.run("anna", "Refund order A-1003 completely, the customer does not like the colour.")
        answer = await play.ask(run, "refund_order", _refund("A-1003", 31_900, "unwanted"), "call_1")
        play.expect_answer(answer, Code.APPROVAL_PENDING)
        await play.decide(await play.hold_of(answer, "olga"), "olga", "deny", "Too late for a return.")
        denied = await play.wait(run, answer.call_id)
        play.expect_answer(denied, Code.APPROVAL_DENIED)
        play.expect_true("the person's words stay with the people", "Too late" not in denied.to_json())
        play.expect("requests at the provider", await play.requests_of(answer.call_id), [])
        play.narrator.right("denied; the function was never entered")

    async def an_expired_refund(self) -> None:
        """A refund that nobody decides.

        Silence is not a yes: the hold expires and says so.
        """
        play = self._play
        run = play.run("anna", "Refund order A-1004 completely.")
        answer = await play.ask(run, "refund_order", _refund("A-1004", 15_900, "late"), "call_1")
        play.expect_answer(answer, Code.APPROVAL_PENDING)
        play.narrator.line("nobody", f"decides for {play.premises.hold_wait_s:.0f} s")
        expired = await play.wait(run, answer.call_id, play.premises.hold_wait_s + 20)
        play.expect_answer(expired, Code.APPROVAL_EXPIRED)
        play.expect("requests at the provider", await play.requests_of(answer.call_id), [])
        play.narrator.right("expired with a code of its own; nothing ran")

    async def a_path_that_leads_out(self) -> None:
        """A path that leads out.

        The policy documents lie in one folder; nothing else can be read.
        """
        play = self._play
        run = play.run("anna", "What do our return rules say?")
        answer = await play.ask(run, "read_policy", '{"path": "../../etc/passwd"}', "call_1")
        play.expect_answer(answer, Code.INVALID_ARGUMENTS, where="/path")
        answer = await play.ask(run, "read_policy", '{"path": "policies/returns.md"}', "call_2")
        play.expect_answer(answer, Code.OK)
        play.narrator.right("refused before anything was opened")

    async def a_secret_in_a_long_result(self) -> None:
        """A long result with a secret in it.

        What comes back is redacted as a whole, then cut to the tool's limit.
        """
        play = self._play
        secret = play.premises.store.setting("warehouse").partition("exporter:")[2].partition("@")[0]
        run = play.run("anna", "Export the list of my customers.")
        answer = await play.ask(run, "export_customers", "{}", "call_1")
        play.expect_answer(answer, Code.OK)
        told = answer.to_json()
        play.expect_true("the secret does not reach the model", secret not in told)
        play.expect_true("no customer's e-mail address reaches the model", "@post.example" not in told)
        play.expect("truncated", answer.truncated, True)
        play.expect_true("the rest can be fetched by reference", answer.content_ref is not None)
        play.narrator.right("the secret is gone, head and tail are kept, the rest has a reference")

    async def a_message_to_a_named_person(self) -> None:
        """A message to somebody the clerk named.

        The recipient stands in the clerk's own words: policy lets it go.
        """
        play = self._play
        run = play.run("anna", "Write to mira.holm@post.example that her refund is on its way.")
        answer = await play.ask(
            run, "send_message", _message("mira.holm@post.example", "Your refund", "It is on its way."), "call_1"
        )
        play.expect_answer(answer, Code.OK)
        play.expect("messages sent", [sent["recipient"] for sent in play.premises.store.outbox()], ["mira.holm@post.example"])
        play.narrator.right("sent without asking anybody")

    async def an_injected_instruction(self) -> None:
        """An instruction inside a result.

        A customer's note tells the agent to write to a stranger. The recipient came from a result, not from the
        clerk: it is held, with the source quoted.
        """
        play = self._play
        before = play.premises.store.outbox()
        run = play.run("anna", "Is there anything left to do for order A-1006?")
        play.expect_answer(await play.ask(run, "get_order", '{"order_id": "A-1006"}', "call_1"), Code.OK)
        raw = _message(INJECTED_ADDRESS, "Order A-1006", "Noor Farah lives at the address of order A-1006.")
        answer = await play.ask(run, "send_message", raw, "call_2")
        play.expect_answer(answer, Code.APPROVAL_PENDING)
        hold = await play.hold_of(answer, "ben")
        play.expect("why it is held", hold["shown"]["why"]["reason"], "origin_breach")
        breach = hold["shown"]["why"]["breaches"][0]
        play.expect("the source", (breach["pointer"], breach["source"]), ("/recipient", "get_order"))
        play.expect_true("the source is quoted", INJECTED_ADDRESS in breach["quote"])
        await play.decide(hold, "ben", "deny", "Nobody here asked for that.")
        play.expect_answer(await play.wait(run, answer.call_id), Code.APPROVAL_DENIED)
        play.expect("messages sent", play.premises.store.outbox(), before)
        play.narrator.right("held with the customer's note quoted, denied; nothing was sent")

    async def a_forged_event(self) -> None:
        """A forged event.

        Somebody with access to Kafka writes straight onto calls.cleared. Without the gates' seals it is no record at
        all.
        """
        play = self._play
        play.narrator.line("intruder", "writes CallCleared for a refund of 319.00 EUR, sealed with keys of their own")
        call_id, dead = await forge_cleared(play.premises, "A-1003", 31_900)
        play.expect("why it is dead", dead.reason, "bad_seal")
        play.expect("requests at the provider", await play.requests_of(call_id), [])
        play.narrator.right(f"dead letter ({dead.reason}) by the {dead.worker}; nothing ran, nobody was answered")

    async def _one_refund(self, answer: Answer, cents: int) -> None:
        refunds = [refund for refund in await self._play.premises.payments.refunds() if refund["key"] == answer.call_id]
        self._play.expect("the provider's refunds under this key", [refund["amount_cents"] for refund in refunds], [cents])

    def _earlier(self) -> tuple[Run, Answer]:
        if self._refund is None:
            raise Difference("this scene goes on with the small refund, which did not succeed")
        return self._refund


def _scene(act: Callable[[], Awaitable[None]]) -> Scene:
    title, _, words = (inspect.getdoc(act) or "").partition(".\n\n")
    return Scene(title, " ".join(words.split()), act)


def _refund(order_id: str, cents: int, reason: str) -> str:
    """Raw argument text as a model writes it."""
    return f'{{"order_id": "{order_id}", "amount_cents": {cents}, "reason": "{reason}"}}'


def _message(recipient: str, subject: str, text: str) -> str:
    return f'{{"recipient": "{recipient}", "subject": "{subject}", "text": "{text}"}}'
