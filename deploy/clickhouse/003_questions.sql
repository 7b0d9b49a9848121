-- What people ask: success with named denominators, refusals, waiting, retries, doubt.
-- asked: calls a gate vouched for. allowed: cleared by the gates. ran: the tool was sent for. decided: with a last word.

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
FROM fourgates.calls
GROUP BY tenant, tool, tool_version, agent, day;

CREATE OR REPLACE VIEW fourgates.success_by_tool AS
SELECT
    tool,
    sum(s.asked) AS asked, sum(s.allowed) AS allowed, sum(s.ran) AS ran, sum(s.decided) AS decided, sum(s.succeeded) AS succeeded,
    sum(s.failed) AS failed, sum(s.refused) AS refused, sum(s.in_doubt) AS in_doubt, sum(s.open) AS open,
    if(asked = 0, NULL, succeeded / asked) AS succeeded_of_asked,
    if(decided = 0, NULL, succeeded / decided) AS succeeded_of_decided,
    if(ran = 0, NULL, succeeded / ran) AS succeeded_of_ran
FROM fourgates.success AS s
GROUP BY tool;

CREATE OR REPLACE VIEW fourgates.refusals_by_code AS
SELECT code, attributed_to, tool, reason, count() AS calls, max(asked_at) AS last_at
FROM fourgates.calls
WHERE status IN ('refused', 'failed')
GROUP BY code, attributed_to, tool, reason;

CREATE OR REPLACE VIEW fourgates.failures_by_attribution AS
SELECT attributed_to, code, tool, tenant, agent, day, count() AS calls
FROM fourgates.calls
WHERE status IN ('refused', 'failed', 'in_doubt') AND attributed_to != ''
GROUP BY attributed_to, code, tool, tenant, agent, day;

CREATE OR REPLACE VIEW fourgates.latency_by_tool AS
SELECT
    c.tool AS tool, c.day AS day, countIf(c.decided) AS decided,
    quantileExactIf(0.5)(assumeNotNull(c.latency_ms), c.decided) AS p50_ms,
    quantileExactIf(0.95)(assumeNotNull(c.latency_ms), c.decided) AS p95_ms,
    quantileExactIf(0.5)(assumeNotNull(c.latency_ms) - ifNull(c.waited_ms, 0), c.decided) AS p50_ms_without_people,
    quantileExactIf(0.5)(c.duration_ms, c.ran) AS p50_ms_in_tool,
    quantileExactIf(0.95)(c.duration_ms, c.ran) AS p95_ms_in_tool
FROM fourgates.calls AS c
GROUP BY tool, day;

CREATE OR REPLACE VIEW fourgates.approval_times AS
SELECT
    approver_group, tool, hold_reason, state, count() AS holds,
    quantileExact(0.5)(waited_ms) AS p50_waited_ms, quantileExact(0.95)(waited_ms) AS p95_waited_ms
FROM fourgates.holds
GROUP BY approver_group, tool, hold_reason, state;

CREATE OR REPLACE VIEW fourgates.retries AS
SELECT call_id, tenant, tool, tool_version, agent, asked_at, claims, attempts, releases, replays, code, status
FROM fourgates.calls
WHERE attempts > 1 OR claims > 1 OR releases > 0;

CREATE OR REPLACE VIEW fourgates.doubts AS
SELECT
    c.call_id AS call_id, c.tenant AS tenant, c.tool AS tool, c.agent AS agent, c.asked_at AS asked_at, c.claimed_at AS claimed_at,
    c.attempts AS attempts, c.phase AS phase, c.code AS code, h.resolved_as AS resolved_as, h.resolved_by AS resolved_by
FROM fourgates.calls AS c
LEFT JOIN (SELECT * FROM fourgates.holds WHERE hold_reason = 'in_doubt') AS h ON h.call_id = c.call_id
WHERE c.phase = 'in_doubt' OR h.call_id != '';
