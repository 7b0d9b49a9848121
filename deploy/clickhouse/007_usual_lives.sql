-- Nearly all calls have one of a few lives, and those can be told apart by a few numbers: whole counts then need no life log.
-- Each number is a bit mask, a minimum or a maximum: a record that comes twice changes none.

ALTER TABLE fourgates.call_rollup
    ADD COLUMN IF NOT EXISTS said SimpleAggregateFunction(groupBitOr, UInt16) COMMENT 'which entries its life log has: 1 refused, 2 read, 4 read and failed, 8 claimed, 16 attempted by the holder, 32 committed, 64 pending, 128 anything else, 256 failed after one attempt',
    ADD COLUMN IF NOT EXISTS claim_least SimpleAggregateFunction(min, UInt64) DEFAULT 18446744073709551615 COMMENT 'of the hashes of its claims; with the most equal to it there is one',
    ADD COLUMN IF NOT EXISTS claim_most SimpleAggregateFunction(max, UInt64),
    ADD COLUMN IF NOT EXISTS attempt_least SimpleAggregateFunction(min, UInt64) DEFAULT 18446744073709551615,
    ADD COLUMN IF NOT EXISTS attempt_most SimpleAggregateFunction(max, UInt64),
    ADD COLUMN IF NOT EXISTS claimed_first SimpleAggregateFunction(min, Int64) DEFAULT 9223372036854775807 COMMENT 'offset',
    ADD COLUMN IF NOT EXISTS attempted_first SimpleAggregateFunction(min, Int64) DEFAULT 9223372036854775807 COMMENT 'offset',
    ADD COLUMN IF NOT EXISTS claimed_ms SimpleAggregateFunction(max, Int64),
    ADD COLUMN IF NOT EXISTS logged_ms SimpleAggregateFunction(max, Int64) COMMENT 'its last entry',
    ADD COLUMN IF NOT EXISTS ended_first SimpleAggregateFunction(min, Int64) DEFAULT 9223372036854775807 COMMENT 'offset of the first entry that ends a life; with the last equal to it there is one',
    ADD COLUMN IF NOT EXISTS ended_last SimpleAggregateFunction(max, Int64) DEFAULT -1,
    ADD COLUMN IF NOT EXISTS ended_ms SimpleAggregateFunction(max, Int64),
    ADD COLUMN IF NOT EXISTS ended_code SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS answer_first SimpleAggregateFunction(min, Int64) DEFAULT 9223372036854775807 COMMENT 'offset of the first final answer',
    ADD COLUMN IF NOT EXISTS answer_last SimpleAggregateFunction(max, Int64) DEFAULT -1,
    ADD COLUMN IF NOT EXISTS answer_ms SimpleAggregateFunction(max, Int64),
    ADD COLUMN IF NOT EXISTS answer_code SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS answer_reason SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS told_last SimpleAggregateFunction(max, Int64) DEFAULT -1 COMMENT 'twice the offset of the last answer that was not final, and one where that was a timeout',
    ADD COLUMN IF NOT EXISTS tool_least SimpleAggregateFunction(min, UInt64) DEFAULT 18446744073709551615 COMMENT 'of the hashes of tool, version and risk; with the most equal to it all records say the same',
    ADD COLUMN IF NOT EXISTS tool_most SimpleAggregateFunction(max, UInt64),
    ADD COLUMN IF NOT EXISTS tool SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS tool_version SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS risk SimpleAggregateFunction(max, String) CODEC(ZSTD(1));

ALTER TABLE fourgates.call_rollup_feed MODIFY QUERY
WITH
    record = 'LedgerEntry' AS in_log,
    toUnixTimestamp64Milli(at) AS at_ms,
    e.tool != '' AND record != 'CallRequested' AS names,
    record = 'CallCompleted' AND final AS answers,
    multiIf(
        NOT in_log, 0,
        kind = 'Finished' AND claim_id = '', if(outcome = 'committed', 2, 4),
        kind = 'Refused' AND claim_id = '' AND final, 1,
        kind = 'Claimed' AND claim_id != '', 8,
        kind = 'Attempted' AND claim_id != '' AND attempt != '' AND sent_by = 'holder', 16,
        kind = 'Finished' AND outcome = 'committed', 32,
        kind = 'Finished' AND vouches IN (-1, 1), 256,
        kind = 'Pending', 64,
        128) AS bit
SELECT
    call_id,
    max(if(topic = 'approvals', '', tenant)) AS tenant,
    max(if(topic = 'approvals', '', agent)) AS agent,
    max(if(record = 'CallRequested', '', run_id)) AS run_id,
    min(at_ms) AS first_seen_ms,
    min(if(record = 'CallRequested' AND kind = 'call', at_ms, 9223372036854775807)) AS first_request_ms,
    min(CAST(
        if(names, (at_ms, offset, e.tool, e.tool_version, toString(e.risk)),
            (9223372036854775807, 0, '', '', '')),
        'Tuple(at_ms Int64, offset Int64, tool String, tool_version String, risk String)')) AS named,
    max(record != 'CallRequested') AS vouched,
    max(record = 'CallValidated') AS validated,
    min(if(record = 'CallCleared' AND kind = 'cleared', at_ms, 9223372036854775807)) AS cleared_ms,
    max(if(kind = 'Finished', duration_ms, 0)) AS duration_ms,
    min(CAST(
        if(answers, (offset, toString(code), reason, at_ms),
            (9223372036854775807, '', '', 0)),
        'Tuple(offset Int64, code String, reason String, at_ms Int64)')) AS answer,
    max(CAST(
        if(record = 'CallCompleted' AND NOT final, (offset, toString(code)), (-1, '')),
        'Tuple(offset Int64, code String)')) AS interim,
    groupUniqArrayArray(if(in_log,
        [CAST(
            (kind, claim_id, attempt, sent_by, ifNull(vouches, -2), outcome, code, final, at_ms, offset, event_id),
            'Tuple(kind String, claim_id String, attempt String, sent_by String, vouches Int64, outcome String, code String, final Bool, at_ms Int64, offset Int64, event_id String)')],
        [])) AS ledger,
    groupBitOr(toUInt16(bit)) AS said,
    min(if(in_log AND claim_id != '', cityHash64(claim_id), 18446744073709551615)) AS claim_least,
    max(if(in_log AND claim_id != '', cityHash64(claim_id), 0)) AS claim_most,
    min(if(bit = 16, cityHash64(attempt), 18446744073709551615)) AS attempt_least,
    max(if(bit = 16, cityHash64(attempt), 0)) AS attempt_most,
    min(if(bit = 8, offset, 9223372036854775807)) AS claimed_first,
    min(if(bit = 16, offset, 9223372036854775807)) AS attempted_first,
    max(if(in_log AND kind = 'Claimed', at_ms, 0)) AS claimed_ms,
    max(if(in_log, at_ms, 0)) AS logged_ms,
    min(if(bit IN (1, 2, 4, 32, 256), offset, 9223372036854775807)) AS ended_first,
    max(if(bit IN (1, 2, 4, 32, 256), offset, -1)) AS ended_last,
    max(if(bit IN (1, 2, 4, 32, 256), at_ms, 0)) AS ended_ms,
    max(if(bit IN (1, 2, 4, 32, 256), toString(code), '')) AS ended_code,
    min(if(answers, offset, 9223372036854775807)) AS answer_first,
    max(if(answers, offset, -1)) AS answer_last,
    max(if(answers, at_ms, 0)) AS answer_ms,
    max(if(answers, toString(code), '')) AS answer_code,
    max(if(answers, reason, '')) AS answer_reason,
    max(if(record = 'CallCompleted' AND NOT final, 2 * offset + (code = 'timeout'), -1)) AS told_last,
    min(if(names, cityHash64(e.tool, e.tool_version, toString(e.risk)), 18446744073709551615)) AS tool_least,
    max(if(names, cityHash64(e.tool, e.tool_version, toString(e.risk)), 0)) AS tool_most,
    max(if(names, e.tool, '')) AS tool,
    max(if(names, e.tool_version, '')) AS tool_version,
    max(if(names, toString(e.risk), '')) AS risk
FROM fourgates.events AS e
WHERE call_id != '' AND topic NOT IN ('effects', 'records.dead') AND kind NOT IN ('invalid', 'Barrier')
GROUP BY call_id;

-- What was there before goes past the feed once more, as in 005.
INSERT INTO fourgates.events SELECT * FROM fourgates.events FINAL;

-- One row per call, as `calls` has it, but for what people said and who they are. What is told of a plain life here (one answer,
-- one end, one claim, one attempt) is what the fold tells, which a test holds beside it; the others are folded.
CREATE OR REPLACE VIEW fourgates.call_facts AS
WITH
    (SELECT groupArray(code) FROM fourgates.attribution) AS codes,
    (SELECT groupArray(attributed_to) FROM fourgates.attribution) AS whose
SELECT
    call_id, tenant, agent, run_id, tool, tool_version, risk,
    fromUnixTimestamp64Milli(if(first_request_ms != 9223372036854775807, first_request_ms, first_seen_ms), 'UTC') AS asked_at,
    toDate(asked_at) AS day,
    validated,
    cleared_ms != 9223372036854775807 AS cleared,
    duration_ms,
    decided, reason,
    if(decided, fromUnixTimestamp64Milli(answered_ms, 'UTC'), NULL) AS answered_at,
    if(decided, dateDiff('millisecond', asked_at, answered_at), NULL) AS latency_ms,
    phase, outcome, outcome_code, attempts, claims, releases, replays, claimed_at, ended_at, doubted_at, ran,
    multiIf(decided, said_code, phase = 'in_doubt', 'in_doubt', interim_code) AS code,
    transform(code, codes, whose, '') AS attributed_to,
    multiIf(
        decided AND said_code = 'ok', 'succeeded',
        decided AND outcome IN ('failed', 'not_applied'), 'failed',
        decided, 'refused',
        phase = 'in_doubt', 'in_doubt',
        'open'
    ) AS status
FROM
(
    SELECT
        call_id, tenant, agent, run_id, first_seen_ms, first_request_ms, vouched, validated, cleared_ms, duration_ms,
        tool, tool_version, risk,
        true AS decided, answer_reason AS reason, answer_ms AS answered_ms, answer_code AS said_code, '' AS interim_code,
        bitAnd(said, 447) AS life,
        if(life = 0, 'open', 'final') AS phase,
        multiIf(life = 0, '', life = 1, 'refused', life IN (4, 280), 'failed', 'committed') AS outcome,
        ended_code AS outcome_code,
        bitAnd(said, 16) != 0 AS attempts,
        bitAnd(said, 8) != 0 AS claims,
        0 AS releases,
        0 AS replays,
        fromUnixTimestamp64Milli(claimed_ms, 'UTC') AS claimed_at,
        if(life = 0, NULL, fromUnixTimestamp64Milli(ended_ms, 'UTC')) AS ended_at,
        toDateTime64(0, 3, 'UTC') AS doubted_at,
        life NOT IN (0, 1) OR (told_last >= 0 AND told_last % 2 = 1) AS ran
    FROM fourgates.call_rollup FINAL
    WHERE answer_first = answer_last AND tool_least = tool_most AND (
        life = 0
        OR (life IN (1, 2, 4) AND ended_first = ended_last AND (life = 1 OR logged_ms - ended_ms < 600000))
        OR (life IN (56, 280) AND ended_first = ended_last AND claim_least = claim_most AND attempt_least = attempt_most
            AND claimed_first < attempted_first AND attempted_first < ended_first))
    UNION ALL
    SELECT
        call_id, tenant, agent, run_id, first_seen_ms, first_request_ms, vouched, validated, cleared_ms, duration_ms,
        named.tool AS tool, named.tool_version AS tool_version, named.risk AS risk,
        answer.offset != 9223372036854775807 AS decided, answer.reason AS reason, answer.at_ms AS answered_ms, answer.code AS said_code,
        interim.code AS interim_code,
        0 AS life, phase, outcome, outcome_code, all_attempts AS attempts, claims, releases, replays, claimed_at, ended_at,
        doubted_at, any_evidence OR interim.code = 'timeout' AS ran
    FROM fourgates.call_lives
    WHERE call_id IN (
        SELECT call_id FROM fourgates.call_rollup FINAL
        WHERE NOT (answer_first = answer_last AND tool_least = tool_most AND (
        bitAnd(said, 447) = 0
        OR (bitAnd(said, 447) IN (1, 2, 4) AND ended_first = ended_last AND (bitAnd(said, 447) = 1 OR logged_ms - ended_ms < 600000))
        OR (bitAnd(said, 447) IN (56, 280) AND ended_first = ended_last AND claim_least = claim_most AND attempt_least = attempt_most
            AND claimed_first < attempted_first AND attempted_first < ended_first))))
)
WHERE vouched = 1;
