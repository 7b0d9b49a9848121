"""Questions that must have no answer: each row that one of them returns is something that should never have happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fourgates.audit.store import Query

LONGEST_DEADLINE_SECONDS = 3_600
"""Calls whose last sign is younger are left out: they may still be on their way."""


@dataclass(frozen=True, slots=True)
class Check:
    """One integrity query. `sql` takes `before`, ms of broker time: what is younger is not judged."""

    name: str
    meaning: str
    sql: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; no rows where all is well."""

    name: str
    meaning: str
    rows: Sequence[dict[str, Any]]


RAN_WITHOUT_APPROVAL = Check(
    "ran_without_approval",
    "A tool was sent for although no gate had cleared the call, nobody had claimed it, or people had to approve it and had not.",
    """
SELECT ran.call_id AS call_id, ran.claim_id AS claim_id, toString(ran.ran_at) AS at,
       if(ran.claim_id = '', cleared.hold_id, claims.hold_id) AS hold_id,
       multiIf(cleared.times = 0, 'never cleared',
               ran.claim_id != '' AND claims.times = 0, 'never claimed', 'not approved') AS why
FROM (
    SELECT call_id, claim_id, min(at) AS ran_at
    FROM fourgates.records
    WHERE topic = 'calls.ledger' AND kind IN ('Attempted', 'Finished') AND at < fromUnixTimestamp64Milli({before:Int64}, 'UTC')
    GROUP BY call_id, claim_id
) AS ran
LEFT JOIN (
    SELECT call_id, count() AS times, argMax(hold_id, offset) AS hold_id, argMax(obligations, offset) AS obligations
    FROM fourgates.records
    WHERE topic = 'calls.cleared' AND kind = 'cleared'
    GROUP BY call_id
) AS cleared ON cleared.call_id = ran.call_id
LEFT JOIN (
    SELECT claim_id, count() AS times, any(hold_id) AS hold_id, any(obligations) AS obligations
    FROM fourgates.records
    WHERE topic = 'calls.ledger' AND kind = 'Claimed'
    GROUP BY claim_id
) AS claims ON claims.claim_id = ran.claim_id
LEFT JOIN (
    SELECT hold_id, assumeNotNull(ended_at) AS approved_at FROM fourgates.holds WHERE state = 'approved'
) AS holds ON holds.hold_id = if(ran.claim_id = '', cleared.hold_id, claims.hold_id)
WHERE cleared.times = 0
   OR (ran.claim_id != '' AND claims.times = 0)
   OR ((hold_id != '' OR arrayExists(duty -> startsWith(duty, 'approval:'),
                                     if(ran.claim_id = '', cleared.obligations, claims.obligations)))
       -- the topics' leaders may be a second apart
       AND (holds.hold_id = '' OR holds.approved_at > ran.ran_at + INTERVAL 1 SECOND))
ORDER BY at
""",
)

APPROVED_BUT_NEVER_RAN = Check(
    "approved_but_never_ran",
    "People approved the call, it was neither refused nor cancelled afterwards, and yet nothing was ever sent.",
    """
SELECT holds.call_id AS call_id, holds.hold_id AS hold_id, holds.tool AS tool, toString(holds.ended_at) AS approved_at
FROM fourgates.holds AS holds
LEFT JOIN fourgates.ledger_states AS states ON states.call_id = holds.call_id
WHERE holds.state = 'approved' AND holds.hold_reason != 'in_doubt'
  AND assumeNotNull(holds.ended_at) < fromUnixTimestamp64Milli({before:Int64}, 'UTC')
  AND states.phase != 'final' AND states.all_attempts = 0
ORDER BY approved_at
""",
)

CLAIMED_WITHOUT_AN_END = Check(
    "claimed_without_an_end",
    "An executor claimed the call, and since then neither an end nor a doubt was written, or nobody was asked about the doubt.",
    """
SELECT states.call_id AS call_id, states.claim_id AS claim_id, states.phase AS phase, toString(states.claimed_at) AS claimed_at
FROM fourgates.ledger_states AS states
LEFT JOIN (SELECT call_id, count() AS asked FROM fourgates.holds WHERE hold_reason = 'in_doubt' GROUP BY call_id) AS doubts
    ON doubts.call_id = states.call_id
WHERE states.claimed_at < fromUnixTimestamp64Milli({before:Int64}, 'UTC')
  AND (states.phase = 'claimed' OR (states.phase = 'in_doubt' AND doubts.asked = 0))
ORDER BY claimed_at
""",
)

SHOWN_DIFFERS_FROM_EXECUTED = Check(
    "shown_differs_from_executed",
    "What people saw is not what was claimed for execution: other arguments, another tool version or another effect.",
    """
SELECT claims.call_id AS call_id, holds.hold_id AS hold_id, claims.tool AS tool,
       arrayFilter(name -> name != '', [
           if(claims.args_digest != holds.args_digest, 'arguments', ''),
           if(claims.tool_version != holds.tool_version, 'tool_version', ''),
           if(claims.preview_digest != holds.preview_digest, 'effect', '')]) AS differs
FROM (
    SELECT call_id, tool, args_digest, tool_version, preview_digest, hold_id
    FROM fourgates.records
    WHERE topic = 'calls.ledger' AND kind = 'Claimed' AND at < fromUnixTimestamp64Milli({before:Int64}, 'UTC')
) AS claims
INNER JOIN fourgates.holds AS holds ON holds.call_id = claims.call_id AND holds.hold_id = claims.hold_id
WHERE claims.hold_id != '' AND holds.hold_reason != 'in_doubt'
  AND (claims.args_digest != holds.args_digest OR claims.tool_version != holds.tool_version
       OR claims.preview_digest != holds.preview_digest)
ORDER BY call_id
""",
)

PREVIEW_DIFFERS_FROM_CHANGE = Check(
    "preview_differs_from_change",
    "People were shown another state after the call than the one that the tool itself reports: its preview lies, or its report.",
    """
SELECT ran.call_id AS call_id, claims.hold AS hold_id, ran.tool AS tool,
       arrayFilter(
           name -> JSONHas(ran.changed, name)
               AND JSONExtractRaw(asked.body, 'shown', 'preview', 'after', name)
                   != if(JSONHas(ran.changed, name, 'after'), JSONExtractRaw(ran.changed, name, 'after'),
                         JSONExtractRaw(ran.changed, name)),
           JSONExtractKeys(asked.body, 'shown', 'preview', 'after')) AS differs
FROM (
    SELECT call_id, claim_id, any(tool) AS tool, any(state_change) AS changed
    FROM fourgates.records
    WHERE topic = 'calls.ledger' AND kind = 'Finished' AND outcome = 'committed' AND claim_id != ''
      AND at < fromUnixTimestamp64Milli({before:Int64}, 'UTC')
    GROUP BY call_id, claim_id
) AS ran
INNER JOIN (
    SELECT claim_id, any(hold_id) AS hold
    FROM fourgates.records
    WHERE topic = 'calls.ledger' AND kind = 'Claimed' AND hold_id != ''
    GROUP BY claim_id
) AS claims ON claims.claim_id = ran.claim_id
INNER JOIN (
    SELECT hold_id, argMin(body, offset) AS body
    FROM fourgates.records
    WHERE topic = 'approvals' AND kind = 'Requested'
    GROUP BY hold_id
) AS asked ON asked.hold_id = claims.hold
WHERE notEmpty(differs)
ORDER BY call_id
""",
)
"""Compared is what both name: the fields of the preview's `after`, and of the state change (its own value, or its `after`)."""

OFFSETS_MISSING = Check(
    "offsets_missing",
    "Records of a partition are missing between others.",
    """
SELECT topic, partition, previous + 1 AS first_missing, offset - previous - 1 AS missing
FROM (
    SELECT topic, partition, offset,
           lagInFrame(offset, 1, offset - 1) OVER (PARTITION BY topic, partition ORDER BY offset
                                                   ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS previous
    FROM fourgates.records
    WHERE at < fromUnixTimestamp64Milli({before:Int64}, 'UTC')
)
WHERE offset != previous + 1
ORDER BY topic, partition, first_missing
""",
)

TWO_FINAL_ANSWERS = Check(
    "two_final_answers",
    "The host was told two different last words of one call (of a read: within the ten minutes in which it is remembered).",
    """
SELECT answers.call_id AS call_id, answers.digests AS answers
FROM (
    SELECT call_id, groupUniqArray(observation_digest) AS digests,
           -- of each ten minutes (less what an answer may be under way) the first answer is the one
           arrayFold(
               (s, e) -> multiIf(
                   s.2 = '' OR e.1 - s.1 >= 595000, (e.1, e.2, s.3),
                   e.2 != s.2, (s.1, s.2, 1::UInt8),
                   s),
               arrayMap(t -> (t.2, t.3), arraySort(groupArray((offset, toUnixTimestamp64Milli(at), observation_digest)))),
               (0::Int64, '', 0::UInt8)).3 = 1 AS differ_within_ten_minutes
    FROM fourgates.records
    WHERE topic = 'calls.completed' AND final AND at < fromUnixTimestamp64Milli({before:Int64}, 'UTC')
    GROUP BY call_id
    HAVING length(digests) > 1
) AS answers
LEFT JOIN fourgates.ledger_states AS states ON states.call_id = answers.call_id
WHERE NOT states.is_read OR answers.differ_within_ten_minutes
ORDER BY call_id
""",
)

UNREADABLE_BY_US = Check(
    "unreadable_by_us",
    "A record that proved itself could not be made into a row: our own fault, its contents are missing here.",
    """
SELECT topic, partition, offset, reason, sentence
FROM fourgates.records
WHERE kind = 'invalid' AND reason IN ('unforeseen', 'unreadable') AND at < fromUnixTimestamp64Milli({before:Int64}, 'UTC')
ORDER BY topic, partition, offset
""",
)

ERASED_BUT_THERE = Check(
    "erased_but_there",
    "A record of an erased person's call came afterwards, or once more: ask for the erasure again.",
    """
SELECT topic, partition, offset, call_id
FROM fourgates.records
WHERE erased_ms = 0 AND at < fromUnixTimestamp64Milli({before:Int64}, 'UTC') AND call_id IN (
    SELECT call_id FROM fourgates.events WHERE erased_ms > 0 AND startsWith(subject, 'erased:') AND kind != 'Decided'
)
ORDER BY topic, partition, offset
""",
)

CHECKS: tuple[Check, ...] = (
    RAN_WITHOUT_APPROVAL, APPROVED_BUT_NEVER_RAN, CLAIMED_WITHOUT_AN_END, SHOWN_DIFFERS_FROM_EXECUTED,
    PREVIEW_DIFFERS_FROM_CHANGE, OFFSETS_MISSING, TWO_FINAL_ANSWERS, UNREADABLE_BY_US, ERASED_BUT_THERE,
)  # fmt: skip


def run_integrity(query: Query, now_ms: int, younger_than: float = LONGEST_DEADLINE_SECONDS) -> list[Finding]:
    """Every check's finding, with or without rows. `younger_than` seconds before `now_ms` are left out."""
    before = now_ms - int(younger_than * 1000)
    return [Finding(check.name, check.meaning, query(check.sql, {"before": before})) for check in CHECKS]
