-- What people ask, over the roll-up. Each by tenant, tool, tool_version, agent and day.
-- asked: calls a gate vouched for. allowed: cleared by the gates. ran: the tool was sent for. decided: with a last word.

-- One row per call, as `calls` has it, but for what people said and who they are.
CREATE OR REPLACE VIEW fourgates.call_facts AS
SELECT
    call_id, tenant, agent, run_id, named.tool AS tool, named.tool_version AS tool_version, named.risk AS risk,
    fromUnixTimestamp64Milli(if(first_request_ms != 9223372036854775807, first_request_ms, first_seen_ms), 'UTC') AS asked_at,
    toDate(asked_at) AS day,
    validated,
    cleared_ms != 9223372036854775807 AS cleared,
    duration_ms,
    answer.offset != 9223372036854775807 AS decided,
    answer.reason AS reason,
    if(decided, fromUnixTimestamp64Milli(answer.at_ms, 'UTC'), NULL) AS answered_at,
    if(decided, dateDiff('millisecond', asked_at, answered_at), NULL) AS latency_ms,
    phase, outcome, outcome_code, all_attempts AS attempts, claims, releases, replays, claimed_at, ended_at, doubted_at,
    any_evidence OR interim.code = 'timeout' AS ran,
    multiIf(decided, answer.code, phase = 'in_doubt', 'in_doubt', interim.code) AS code,
    transform(
        code, (SELECT groupArray(code) FROM fourgates.attribution), (SELECT groupArray(attributed_to) FROM fourgates.attribution), ''
    ) AS attributed_to,
    multiIf(
        decided AND answer.code = 'ok', 'succeeded',
        decided AND outcome IN ('failed', 'not_applied'), 'failed',
        decided, 'refused',
        phase = 'in_doubt', 'in_doubt',
        'open'
    ) AS status
FROM fourgates.call_lives
WHERE vouched = 1;

CREATE OR REPLACE VIEW fourgates.success AS
SELECT
    tenant, tool, tool_version, agent, day,
    count() AS asked,
    countIf(validated) AS validated,
    countIf(cleared) AS allowed,
    countIf(ran) AS ran,
    countIf(decided) AS decided,
    countIf(status = 'succeeded') AS succeeded,
    countIf(status = 'failed') AS failed,
    countIf(status = 'refused') AS refused,
    countIf(status = 'in_doubt') AS in_doubt,
    countIf(status = 'open') AS open
FROM fourgates.call_facts
GROUP BY tenant, tool, tool_version, agent, day;

CREATE OR REPLACE VIEW fourgates.refusals AS
SELECT tenant, tool, tool_version, agent, day, code, reason, attributed_to, count() AS calls, max(asked_at) AS last_at
FROM fourgates.call_facts
WHERE status IN ('refused', 'failed')
GROUP BY tenant, tool, tool_version, agent, day, code, reason, attributed_to;

CREATE OR REPLACE VIEW fourgates.refusals_by_code AS
SELECT code, attributed_to, tool, reason, sum(r.calls) AS calls, max(r.last_at) AS last_at
FROM fourgates.refusals AS r
GROUP BY code, attributed_to, tool, reason;

CREATE OR REPLACE VIEW fourgates.failures_by_attribution AS
SELECT attributed_to, code, tool, tool_version, tenant, agent, day, count() AS calls
FROM fourgates.call_facts
WHERE status IN ('refused', 'failed', 'in_doubt') AND attributed_to != ''
GROUP BY attributed_to, code, tool, tool_version, tenant, agent, day;

-- One row per decided call: how long it took, for whom it waited, what remains.
CREATE OR REPLACE VIEW fourgates.latencies AS
SELECT
    f.call_id AS call_id, f.tenant AS tenant, f.tool AS tool, f.tool_version AS tool_version, f.agent AS agent, f.day AS day,
    f.asked_at AS asked_at, f.status AS status, assumeNotNull(f.latency_ms) AS latency_ms, h.waited AS waited_ms,
    greatest(latency_ms - waited_ms, 0) AS own_ms,
    if(f.ran, f.duration_ms, NULL) AS duration_ms
FROM fourgates.call_facts AS f
LEFT JOIN (SELECT call_id, toInt64(sum(ifNull(waited_ms, 0))) AS waited FROM fourgates.holds GROUP BY call_id) AS h
    ON h.call_id = f.call_id
WHERE f.decided;

CREATE OR REPLACE VIEW fourgates.latency_by_tool AS
SELECT
    tool, day, count() AS decided,
    quantileExact(0.5)(l.latency_ms) AS p50_ms,
    quantileExact(0.95)(l.latency_ms) AS p95_ms,
    quantileExact(0.5)(l.own_ms) AS p50_ms_without_people,
    quantileExactIf(0.5)(assumeNotNull(l.duration_ms), isNotNull(l.duration_ms)) AS p50_ms_in_tool,
    quantileExactIf(0.95)(assumeNotNull(l.duration_ms), isNotNull(l.duration_ms)) AS p95_ms_in_tool
FROM fourgates.latencies AS l
GROUP BY tool, day;

CREATE OR REPLACE VIEW fourgates.retries AS
SELECT call_id, tenant, tool, tool_version, agent, day, asked_at, claims, attempts, releases, replays, code, status
FROM fourgates.call_facts
WHERE attempts > 1 OR claims > 1 OR releases > 0;

CREATE OR REPLACE VIEW fourgates.retry_counts AS
SELECT
    tenant, tool, tool_version, agent, day,
    countIf(f.ran) AS ran, countIf(f.attempts > 1 OR f.claims > 1 OR f.releases > 0) AS retried,
    sum(f.attempts) AS attempts, sum(f.claims) AS claims, sum(f.releases) AS releases, sum(f.replays) AS replays
FROM fourgates.call_facts AS f
GROUP BY tenant, tool, tool_version, agent, day;

CREATE OR REPLACE VIEW fourgates.doubts AS
SELECT
    f.call_id AS call_id, f.tenant AS tenant, f.tool AS tool, f.tool_version AS tool_version, f.agent AS agent, f.day AS day,
    f.asked_at AS asked_at, f.claimed_at AS claimed_at, f.doubted_at AS doubted_at, f.attempts AS attempts, f.phase AS phase,
    f.code AS code, if(f.phase = 'final', dateDiff('millisecond', f.doubted_at, f.ended_at), NULL) AS settled_ms,
    h.resolved_as AS resolved_as, h.resolved_by AS resolved_by
FROM (SELECT * FROM fourgates.call_facts WHERE phase = 'in_doubt' OR doubted_at > toDateTime64(0, 3, 'UTC')) AS f
LEFT JOIN (SELECT call_id, resolved_as, resolved_by FROM fourgates.holds WHERE hold_reason = 'in_doubt') AS h
    ON h.call_id = f.call_id;

CREATE OR REPLACE VIEW fourgates.doubt_counts AS
SELECT
    tenant, tool, tool_version, agent, day,
    countIf(f.ran) AS ran, countIf(f.phase = 'in_doubt' OR f.doubted_at > toDateTime64(0, 3, 'UTC')) AS doubted,
    countIf(f.phase = 'in_doubt') AS open,
    countIf(f.doubted_at > toDateTime64(0, 3, 'UTC') AND f.outcome = 'committed') AS committed,
    countIf(f.doubted_at > toDateTime64(0, 3, 'UTC') AND f.outcome = 'not_applied') AS not_applied
FROM fourgates.call_facts AS f
GROUP BY tenant, tool, tool_version, agent, day;
