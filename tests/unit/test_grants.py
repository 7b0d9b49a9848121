"""A request proves itself by its run's key, and the run's key by a grant that only the validator reads."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fourgates.contract.codes import Code
from fourgates.contract.errors import Poison
from fourgates.contract.events import CallRequested, RequestKind
from fourgates.contract.grant import Grant, encrypt_grant
from fourgates.contract.parts import Cause, Origin, Principal, Seal
from fourgates.contract.ports import Received
from fourgates.gates.identity import CACHE_MS, GrantBook, TokenVerifier
from fourgates.gates.refusal import Refusal
from fourgates.runtime.keys import Keyring, new_development_content
from support.records import altered, codec
from support.samples import REQUESTED, RUN_ID
from support.tokens import NOW_MS, RUN_KEY, keyring, sealed, token

WHOLE = dataclasses.replace(
    REQUESTED,
    origins=(Origin(pointer="/order_id", origin="result:1", source="search", quote="order A-1001"),),
    user_turns=("refund order A-1001",), intent="a refund", allowed_actions=("refund_order",),
)  # fmt: skip


class CountingVerifier(TokenVerifier):
    """Counts how often a token's signature is looked at."""

    def __init__(self) -> None:
        super().__init__(keyring().issuer.trust())
        self.proofs = 0

    def prove(self, token: str) -> Any:
        self.proofs += 1
        return super().prove(token)


def book(verifier: TokenVerifier | None = None) -> GrantBook:
    return GrantBook(keyring().validator_private(), verifier or TokenVerifier(keyring().issuer.trust()))


def opened(received: Received, grants: GrantBook | None = None, at_ms: int = NOW_MS) -> Principal | Refusal:
    record = codec().decode(received.position.topic, received.value)
    assert isinstance(record, CallRequested)
    return (grants or book()).open(record, received.value or b"", at_ms)


def poison(received: Received, grants: GrantBook | None = None) -> str:
    with pytest.raises(Poison) as caught:
        opened(received, grants)
    return caught.value.reason


def reseal(received: Received, **changes: Any) -> Received:
    """The record with other content under the old seal, as one who does not know the run's key would forge it."""
    record = codec().decode(received.position.topic, received.value)
    return dataclasses.replace(received, value=codec().encode(dataclasses.replace(record, **changes))[1])


def test_sealed_request_gives_the_tokens_principal() -> None:
    """P1"""
    principal = opened(sealed(WHOLE))
    assert isinstance(principal, Principal)
    assert (principal.subject, principal.tenant) == ("anna", "acme")


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(CallRequested)])
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_altered_field_of_a_request_is_poison(field: str, warm: bool) -> None:
    """P6: every field, also where the grant has been seen before."""
    genuine, grants = sealed(WHOLE), book()
    if warm:
        opened(genuine, grants)
    record = codec().decode(genuine.position.topic, genuine.value)
    other = {
        "cause": Cause(event_id="0" * 32, topic="calls.requested", partition=1, offset=2),
        "kind": RequestKind.CANCEL,
        "grant": record.grant[:-6] + "AAAAAA",  # type: ignore[attr-defined]
    }.get(field, altered(getattr(record, field)) if field not in ("cause", "kind", "grant") else None)
    assert poison(reseal(genuine, **{field: other}), grants) in {"bad_run_seal", "bad_grant"}


def test_every_byte_of_a_request_is_covered_by_its_seal() -> None:
    """P6"""
    genuine, grants = sealed(WHOLE), book()
    value = genuine.value or b""
    opened(genuine, grants)
    record = codec().decode(genuine.position.topic, value)
    assert isinstance(record, CallRequested)
    for at in range(len(value)):
        other = value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
        seal = dataclasses.replace(record.seal, mac=other[-32:])
        with pytest.raises(Poison, match="bad_run_seal"):
            grants.open(dataclasses.replace(record, seal=seal), other, NOW_MS)


def test_grant_moved_to_another_call_is_poison() -> None:
    """P6: who reads the topic has the grant, but not the run's key."""
    stolen = codec().decode("calls.requested", sealed(WHOLE).value)
    assert isinstance(stolen, CallRequested)
    mine = dataclasses.replace(WHOLE, grant=stolen.grant, call_id="a" * 64, arguments="{}")
    assert poison(sealed(mine, run_key=b"guess" * 8)) == "bad_run_seal"


def test_run_key_of_another_grant_is_poison() -> None:
    """P6: my own run's key does not seal for the victim's token."""
    victim = encrypt_grant(Grant(token(), b"v" * 32), keyring().validator_public())
    assert poison(sealed(dataclasses.replace(WHOLE, grant=victim), run_key=RUN_KEY)) == "bad_run_seal"


@pytest.mark.parametrize("seal", [Seal(), Seal(key_id="run"), Seal(key_id="run", mac=b"x" * 64), Seal(key_id="", mac=b"x" * 32)])
def test_request_without_a_run_seal_is_poison(seal: Seal) -> None:
    """P6"""
    assert poison(reseal(sealed(WHOLE), seal=seal)) == "bad_run_seal"


def test_run_key_under_another_key_id_is_poison() -> None:
    """P6"""
    assert poison(sealed(WHOLE, key_id="validator:1")) == "bad_run_seal"


@pytest.mark.parametrize("grant", ["", "x", "a.b.c.d.e", "." * 4, "A" * 20_000])
def test_grant_that_cannot_be_read_is_poison(grant: str) -> None:
    """P6"""
    assert poison(sealed(dataclasses.replace(WHOLE, grant=grant))) == "bad_grant"


def test_grant_for_another_validator_is_poison() -> None:
    """P6"""
    other = Keyring(new_development_content())
    grant = encrypt_grant(Grant(token(), RUN_KEY), other.validator_public())
    assert poison(sealed(dataclasses.replace(WHOLE, grant=grant))) == "bad_grant"


def test_short_run_key_is_poison() -> None:
    """P6"""
    grant = encrypt_grant(Grant(token(), b"short"), keyring().validator_public())
    assert poison(sealed(dataclasses.replace(WHOLE, grant=grant), run_key=b"short")) == "bad_grant"


def test_grant_of_before_the_rotation_stays_readable() -> None:
    """P6"""
    newer = Keyring(new_development_content())
    newest = {**newer.validator_private(), "kid": "grant:2"}
    grants = GrantBook(newest, TokenVerifier(keyring().issuer.trust()), retired=(keyring().validator_private(),))
    assert isinstance(opened(sealed(WHOLE), grants), Principal)


def test_token_that_expired_before_the_append_is_refused_also_when_cached() -> None:
    """P1"""
    grants, received = book(), sealed(WHOLE, bearer=token(ttl_s=10))
    assert isinstance(opened(received, grants, NOW_MS + 20_000), Principal)
    late = opened(received, grants, NOW_MS + 41_000)
    assert isinstance(late, Refusal)
    assert late.reason == "token_expired"


def test_bad_token_in_a_good_grant_is_refused_not_poison() -> None:
    """P1"""
    outcome = opened(sealed(WHOLE, bearer=token()[:-8] + "AAAAAAAA"))
    assert isinstance(outcome, Refusal)
    assert outcome.reason == "bad_token"


def test_token_is_believed_for_a_minute_of_broker_time() -> None:
    """P1"""
    verifier = CountingVerifier()
    grants, received = book(verifier), sealed(WHOLE)
    for at_ms, proofs in ((NOW_MS, 1), (NOW_MS + CACHE_MS, 1), (NOW_MS + CACHE_MS + 1, 2), (NOW_MS, 3)):
        opened(received, grants, at_ms)
        assert verifier.proofs == proofs


def test_refusal_is_addressed_by_what_the_token_claims() -> None:
    """P1"""
    grants, received = book(), sealed(WHOLE, bearer=token(agent="bot")[:-8] + "AAAAAAAA")
    request = codec().decode(received.position.topic, received.value)
    assert isinstance(request, CallRequested)
    assert grants.claimed(request) is None
    opened(received, grants)
    claimed = grants.claimed(request)
    assert claimed is not None
    assert (claimed.tenant, claimed.agent) == ("acme", "bot")


def agent_token(**changes: Any) -> str:
    return token(**{"subject": "support-bot", "service": True, **changes})


def together(bearer: str, agent: str) -> Received:
    """A request whose grant holds the caller's token and the agent's own."""
    grant = encrypt_grant(Grant(bearer, RUN_KEY, agent), keyring().validator_public())
    return sealed(dataclasses.replace(WHOLE, grant=grant))


def test_an_agent_may_show_a_credential_of_its_own() -> None:
    """P4, P1: the user's token says for whom, the agent's who acts; the same as where the user's token names it."""
    principal = opened(together(token(groups=("support",)), agent_token()))
    assert principal == opened(sealed(WHOLE, bearer=token(groups=("support",), agent="support-bot")))
    assert isinstance(principal, Principal)
    assert (principal.subject, principal.agent, principal.service) == ("anna", "support-bot", False)


@pytest.mark.parametrize(
    ("bearer", "agent", "reason"),
    [
        (token(), agent_token(service=False), "agent_no_service_account"),
        (token(), agent_token(agent="other-bot"), "agent_no_service_account"),
        (token(), agent_token(tenant="other"), "agent_of_another_tenant"),
        (token(agent="other-bot"), agent_token(), "agent_differs"),
        (token(), agent_token(audience="fourgates-approvals"), "agent_wrong_audience"),
        (token(), agent_token()[:-8] + "AAAAAAAA", "agent_bad_token"),
        (token(), "no token", "agent_token_unreadable"),
        (token()[:-8] + "AAAAAAAA", agent_token(), "bad_token"),
    ],
)  # fmt: skip
def test_tokens_that_do_not_belong_together_do_not_count(bearer: str, agent: str, reason: str) -> None:
    """P4: a person's token makes nobody an agent, and each agent acts in its own tenant."""
    outcome = opened(together(bearer, agent))
    assert isinstance(outcome, Refusal)
    assert (outcome.code, outcome.reason) == (Code.IDENTITY_INVALID, reason)


def test_both_tokens_must_be_valid_at_the_append() -> None:
    """P1, P4: the one that ends first ends the run's grant."""
    for bearer, agent in ((token(ttl_s=10), agent_token()), (token(), agent_token(ttl_s=10))):
        grants, received = book(), together(bearer, agent)
        assert isinstance(opened(received, grants), Principal)
        late = opened(received, grants, NOW_MS + 41_000)
        assert isinstance(late, Refusal)
        assert late.reason == "token_expired"


def test_a_refusal_is_addressed_to_the_call_of_user_and_agent() -> None:
    """P1, P4: the same call_id as the host derives."""
    grants, received = book(), together(token()[:-8] + "AAAAAAAA", agent_token())
    opened(received, grants)
    claimed = grants.claimed(codec().decode("calls.requested", received.value))
    assert claimed is not None
    assert (claimed.subject, claimed.agent) == ("anna", "support-bot")


def test_neither_token_nor_run_key_lies_in_a_record() -> None:
    """P1"""
    bearer = token()
    value = sealed(WHOLE, bearer=bearer).value or b""
    assert RUN_ID.encode() in value
    for part in (*bearer.encode().split(b"."), RUN_KEY, RUN_KEY.hex().encode()):
        assert part not in value


def test_grant_shows_nothing_of_itself() -> None:
    """P1"""
    assert repr(Grant("a-token", b"a-key")) == "Grant()"
