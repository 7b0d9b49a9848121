-- One short row per call, kept up to date by each insert, so that counting calls does not mean reading all records again.
-- Every column is a minimum, a maximum or a set: a batch that comes twice changes nothing. What people said and who they are is
-- not here but in `events` alone, where it can be erased.

CREATE TABLE IF NOT EXISTS fourgates.call_rollup
(
    call_id          String CODEC(ZSTD(1)),
    tenant           SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    agent            SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    run_id           SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    first_seen_ms    SimpleAggregateFunction(min, Int64) CODEC(ZSTD(1)),
    first_request_ms SimpleAggregateFunction(min, Int64) CODEC(ZSTD(1)),
    named            SimpleAggregateFunction(min, Tuple(at_ms Int64, offset Int64, tool String, tool_version String, risk String)) CODEC(ZSTD(1)) COMMENT 'as the first record of a gate names it',
    vouched          SimpleAggregateFunction(max, UInt8) CODEC(ZSTD(1)) COMMENT 'a gate has said something of it',
    validated        SimpleAggregateFunction(max, UInt8) CODEC(ZSTD(1)),
    cleared_ms       SimpleAggregateFunction(min, Int64) CODEC(ZSTD(1)),
    duration_ms      SimpleAggregateFunction(max, Int64) CODEC(ZSTD(1)),
    answer           SimpleAggregateFunction(min, Tuple(offset Int64, code String, reason String, at_ms Int64)) CODEC(ZSTD(1)) COMMENT 'the first final one, which readers keep',
    interim          SimpleAggregateFunction(max, Tuple(offset Int64, code String)) CODEC(ZSTD(1)) COMMENT 'the last one that was not final',
    ledger           SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        kind String, claim_id String, attempt String, sent_by String, vouches Int64, outcome String, code String, final Bool,
        at_ms Int64, offset Int64, event_id String))) CODEC(ZSTD(1)) COMMENT 'its life log'
)
ENGINE = AggregatingMergeTree
ORDER BY call_id
TTL toDateTime(fromUnixTimestamp64Milli(first_seen_ms)) + INTERVAL 400 DAY
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'one row per call, once merged; read `call_facts`';

CREATE MATERIALIZED VIEW IF NOT EXISTS fourgates.call_rollup_feed TO fourgates.call_rollup AS
SELECT
    call_id,
    max(if(topic = 'approvals', '', tenant)) AS tenant,
    max(if(topic = 'approvals', '', agent)) AS agent,
    max(if(record = 'CallRequested', '', run_id)) AS run_id,
    min(toUnixTimestamp64Milli(at)) AS first_seen_ms,
    min(if(record = 'CallRequested' AND kind = 'call', toUnixTimestamp64Milli(at), 9223372036854775807)) AS first_request_ms,
    min(CAST(
        if(tool != '' AND record != 'CallRequested', (toUnixTimestamp64Milli(at), offset, tool, tool_version, toString(risk)),
            (9223372036854775807, 0, '', '', '')),
        'Tuple(at_ms Int64, offset Int64, tool String, tool_version String, risk String)')) AS named,
    max(record != 'CallRequested') AS vouched,
    max(record = 'CallValidated') AS validated,
    min(if(record = 'CallCleared' AND kind = 'cleared', toUnixTimestamp64Milli(at), 9223372036854775807)) AS cleared_ms,
    max(if(kind = 'Finished', duration_ms, 0)) AS duration_ms,
    min(CAST(
        if(record = 'CallCompleted' AND final, (offset, toString(code), reason, toUnixTimestamp64Milli(at)),
            (9223372036854775807, '', '', 0)),
        'Tuple(offset Int64, code String, reason String, at_ms Int64)')) AS answer,
    max(CAST(
        if(record = 'CallCompleted' AND NOT final, (offset, toString(code)), (-1, '')),
        'Tuple(offset Int64, code String)')) AS interim,
    groupUniqArrayArray(if(record = 'LedgerEntry',
        [CAST(
            (kind, claim_id, attempt, sent_by, ifNull(vouches, -2), outcome, code, final, toUnixTimestamp64Milli(at), offset, event_id),
            'Tuple(kind String, claim_id String, attempt String, sent_by String, vouches Int64, outcome String, code String, final Bool, at_ms Int64, offset Int64, event_id String)')],
        [])) AS ledger
FROM fourgates.events
WHERE call_id != '' AND topic NOT IN ('effects', 'records.dead') AND kind NOT IN ('invalid', 'Barrier')
GROUP BY call_id;

-- What was there before goes past the feed once more: in sets and extremes a record that comes twice counts once.
INSERT INTO fourgates.events SELECT * FROM fourgates.events FINAL;

-- The fold of calls.ledger: the first valid last word wins. The same rules as gates/ledger.py, which a test holds beside it.
-- The three lives that nearly all calls have are told apart first; folding costs ten times as much.
CREATE OR REPLACE VIEW fourgates.call_lives AS
WITH
    arraySort(e -> e.offset, ledger) AS entries,
    arrayMap(e -> e.kind, entries) AS kinds,
    entries[1] AS first,
    entries[2] AS second,
    entries[-1] AS last,
    multiIf(
        length(entries) = 1 AND first.kind = 'Refused' AND first.claim_id = '' AND first.final, 'refused',
        length(entries) = 1 AND first.kind = 'Finished' AND first.claim_id = '', 'read',
        kinds = ['Claimed', 'Attempted', 'Finished'] AND first.claim_id != '' AND second.claim_id = first.claim_id
            AND last.claim_id = first.claim_id AND second.attempt != '' AND second.sent_by = 'holder' AND last.outcome = 'committed', 'written',
        ''
    ) AS usual,
    arrayFold(
        (s, e) -> arrayMap(
            t -> multiIf(
                t.1 = 'final' OR e.1 IN ('Pending', 'Replayed', 'Barrier'),
                    t,
                e.1 = 'Claimed' AND t.1 = 'open' AND e.2 != '' AND NOT has(t.10, e.2),
                    ('claimed', e.2, e.10, emptyArrayString(), 0::UInt8, '', '', 0::Int64, 0::UInt8, arrayPushBack(t.10, e.2)),
                e.1 = 'Claimed',
                    (t.1, t.2, t.3, t.4, t.5, t.6, t.7, t.8, t.9, arrayPushBack(t.10, e.2)),
                e.1 = 'Cancelled' AND t.1 = 'open',
                    ('final', t.2, t.3, t.4, t.5, 'cancelled', e.7, e.9, 0::UInt8, t.10),
                e.1 = 'Cancelled',
                    (t.1, t.2, t.3, t.4, 1::UInt8, t.6, t.7, t.8, t.9, t.10),
                e.2 = '' AND t.1 = 'open' AND e.1 = 'Refused' AND e.8,
                    ('final', t.2, t.3, t.4, t.5, 'refused', e.7, e.9, 0::UInt8, t.10),
                e.2 = '' AND t.1 = 'open' AND e.1 = 'Finished',
                    ('final', t.2, t.3, t.4, t.5, if(e.6 = 'committed', 'committed', 'failed'), e.7, e.9, 1::UInt8, t.10),
                e.2 = '' OR t.1 = 'open' OR e.2 != t.2,
                    t,
                e.1 = 'Attempted' AND e.3 != '' AND (e.4 = 'holder') = (t.1 = 'claimed'),
                    (t.1, t.2, t.3, if(has(t.4, e.3), t.4, arrayPushBack(t.4, e.3)), t.5, t.6, t.7, t.8, t.9, t.10),
                e.1 = 'InDoubt',
                    ('in_doubt', t.2, t.3, t.4, t.5, t.6, t.7, t.8, t.9, t.10),
                e.1 = 'Finished' AND e.6 = 'committed',
                    ('final', t.2, t.3, t.4, t.5, 'committed', e.7, e.9, 0::UInt8, t.10),
                e.1 = 'Finished' AND (e.5 = -1 OR e.5 = length(t.4)),
                    ('final', t.2, t.3, t.4, t.5, 'failed', e.7, e.9, 0::UInt8, t.10),
                e.1 = 'Refused' AND (e.5 = -1 OR e.5 = length(t.4)),
                    ('final', t.2, t.3, t.4, t.5, 'refused', e.7, e.9, 0::UInt8, t.10),
                e.1 = 'Released' AND (e.5 = -1 OR e.5 = length(t.4)) AND t.5 = 1,
                    ('final', t.2, t.3, t.4, t.5, 'cancelled', e.7, e.9, 0::UInt8, t.10),
                e.1 = 'Released' AND (e.5 = -1 OR e.5 = length(t.4)),
                    ('open', '', t.3, emptyArrayString(), 0::UInt8, '', '', 0::Int64, 0::UInt8, t.10),
                e.1 = 'Resolved' AND t.1 = 'in_doubt' AND e.6 = 'committed',
                    ('final', t.2, t.3, t.4, t.5, 'committed', e.7, e.9, 0::UInt8, t.10),
                e.1 = 'Resolved' AND t.1 = 'in_doubt' AND e.5 = length(t.4),
                    ('final', t.2, t.3, t.4, t.5, 'not_applied', e.7, e.9, 0::UInt8, t.10),
                t
            ),
            -- a read is remembered for ten minutes of broker time, then it is as good as new
            [if(s.1 = 'final' AND s.9 = 1 AND e.9 - s.8 >= 600000,
                ('open', '', -1::Int64, emptyArrayString(), 0::UInt8, '', '', 0::Int64, 0::UInt8, emptyArrayString()), s)]
        )[1],
        if(usual = '', entries, []),
        ('open', '', -1::Int64, emptyArrayString(), 0::UInt8, '', '', 0::Int64, 0::UInt8, emptyArrayString())
    ) AS folded
SELECT
    call_id, tenant, agent, run_id, first_seen_ms, first_request_ms, named, vouched, validated, cleared_ms, duration_ms, answer, interim,
    notEmpty(ledger) AS has_log,
    if(usual = '', folded.1, 'final') AS phase,
    multiIf(usual = '', folded.2, usual = 'written', first.claim_id, '') AS claim_id,
    multiIf(usual = '', folded.3, usual = 'written', first.offset, -1) AS fence,
    multiIf(usual = '', length(folded.4), usual = 'written', 1, 0) AS attempts,
    multiIf(
        usual = '', folded.6, usual = 'written', 'committed', usual = 'refused', 'refused',
        first.outcome = 'committed', 'committed', 'failed'
    ) AS outcome,
    if(usual = '', folded.7, last.code) AS outcome_code,
    if(phase = 'final', fromUnixTimestamp64Milli(if(usual = '', folded.8, last.at_ms), 'UTC'), NULL) AS ended_at,
    if(usual = '', folded.9 = 1, usual = 'read') AS is_read,
    length(arrayDistinct(arrayMap(e -> e.attempt, arrayFilter(e -> e.kind = 'Attempted', ledger)))) AS all_attempts,
    length(arrayDistinct(arrayMap(e -> e.claim_id, arrayFilter(e -> e.kind = 'Claimed', ledger)))) AS claims,
    length(arrayDistinct(arrayMap(e -> e.event_id, arrayFilter(e -> e.kind = 'Released', ledger)))) AS releases,
    length(arrayDistinct(arrayMap(e -> e.event_id, arrayFilter(e -> e.kind = 'Replayed', ledger)))) AS replays,
    fromUnixTimestamp64Milli(arrayMax(arrayMap(e -> if(e.kind = 'Claimed', e.at_ms, 0), ledger)), 'UTC') AS claimed_at,
    arrayExists(e -> e.kind IN ('Attempted', 'Finished'), ledger) AS any_evidence,
    fromUnixTimestamp64Milli(arrayMax(arrayMap(e -> if(e.kind = 'InDoubt', e.at_ms, 0), ledger)), 'UTC') AS doubted_at
FROM fourgates.call_rollup FINAL;

CREATE OR REPLACE VIEW fourgates.ledger_states AS
SELECT
    call_id, phase, claim_id, fence, attempts, outcome, outcome_code, ended_at, is_read, all_attempts, claims, releases, replays,
    claimed_at, any_evidence
FROM fourgates.call_lives
WHERE has_log;
