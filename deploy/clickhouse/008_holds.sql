-- One row per hold: asked, shown, decided. The same rules as gates/approval.py, which a test holds beside it: what comes before
-- the question, or says that it is about another call, is void; the first Requested is what was shown; the first terminal entry
-- wins; a decision counts only by who may, on what was shown, in time. A hold that joined an earlier one of the same call stays
-- `open` without `shown_at`.
CREATE OR REPLACE VIEW fourgates.holds AS
WITH
    arrayFilter(e -> e.offset > held_offset AND e.call_id = of_call, said) AS entries,
    arrayFilter(e -> e.kind = 'Requested', entries) AS questions,
    questions[1] AS asked,
    arrayFilter(
        e -> e.kind = 'Decided'
            AND notEmpty(questions) AND e.offset > asked.offset AND e.shown_digest = asked.shown_digest
            AND e.agent = '' AND NOT e.service AND e.person NOT IN ('', asker) AND e.tenant = of_tenant
            AND has(e.groups, of_group)
            AND (expires_ms = 0 OR e.at_ms < expires_ms)
            AND multiIf(
                hold_reason = 'in_doubt', e.verdict = 'committed' OR (e.verdict = 'not_applied' AND e.at_ms >= not_before_ms),
                e.verdict = 'deny' OR (e.verdict = 'approve' AND asked.approvable)),
        entries) AS counting,
    arrayFilter(e -> e.verdict = 'approve', counting) AS yeses,
    -- of each person the first
    arrayFilter((e, n) -> indexOf(arrayMap(y -> y.person, yeses), e.person) = n, yeses, arrayEnumerate(yeses)) AS of_people,
    arraySort(arrayMap(
        e -> (e.offset, e.at_ms, e.person, multiIf(
            e.kind = 'Expired', 'expired', e.kind = 'Withdrawn', 'withdrawn', e.verdict = 'deny', 'denied',
            e.verdict = 'approve', 'approved', 'resolved'), e.verdict),
        arrayConcat(
            arrayFilter(e -> e.kind = 'Withdrawn' OR (e.kind = 'Expired' AND expires_ms != 0 AND e.at_ms >= expires_ms), entries),
            arrayFilter(e -> e.verdict != 'approve', counting),
            if(length(of_people) >= greatest(quorum, 1), arraySlice(of_people, greatest(quorum, 1), 1), []))))[1] AS ending
SELECT
    hold_id, of_call AS call_id, of_tenant AS tenant, of_tool AS tool, of_agent AS agent, of_subject AS subject, hold_reason,
    of_group AS approver_group, quorum, of_digest AS args_digest, of_version AS tool_version, expires_ms, held_at,
    if(empty(questions), NULL, fromUnixTimestamp64Milli(asked.at_ms, 'UTC')) AS shown_at,
    asked.shown_digest AS shown_digest, asked.preview_digest AS preview_digest,
    arrayMap(e -> e.person, arrayFilter(e -> ending.4 = '' OR e.offset <= ending.1, of_people)) AS approved_by,
    if(ending.4 = 'denied', ending.3, '') AS denied_by,
    if(ending.4 = 'resolved', ending.3, '') AS resolved_by,
    if(ending.4 = 'resolved', ending.5, '') AS resolved_as,
    if(ending.4 = '', 'open', ending.4) AS state,
    if(ending.4 = '', NULL, fromUnixTimestamp64Milli(ending.2, 'UTC')) AS ended_at,
    dateDiff('millisecond', held_at, ended_at) AS waited_ms
FROM
(
    SELECT
        r.hold_id AS hold_id,
        argMinIf(r.call_id, r.offset, r.kind = 'Held') AS of_call,
        argMinIf(r.tenant, r.offset, r.kind = 'Held') AS of_tenant,
        argMinIf(r.tool, r.offset, r.kind = 'Held') AS of_tool,
        argMinIf(r.agent, r.offset, r.kind = 'Held') AS of_agent,
        argMinIf(r.subject, r.offset, r.kind = 'Held') AS of_subject,
        argMinIf(r.hold_reason, r.offset, r.kind = 'Held') AS hold_reason,
        argMinIf(r.approver_group, r.offset, r.kind = 'Held') AS of_group,
        argMinIf(r.quorum, r.offset, r.kind = 'Held') AS quorum,
        argMinIf(r.args_digest, r.offset, r.kind = 'Held') AS of_digest,
        argMinIf(r.tool_version, r.offset, r.kind = 'Held') AS of_version,
        argMinIf(r.person, r.offset, r.kind = 'Held') AS asker,
        argMinIf(r.not_before_ms, r.offset, r.kind = 'Held') AS not_before_ms,
        argMinIf(r.expires_ms, r.offset, r.kind = 'Held') AS expires_ms,
        argMinIf(r.at, r.offset, r.kind = 'Held') AS held_at,
        minIf(r.offset, r.kind = 'Held') AS held_offset,
        arraySort(e -> e.offset, groupArrayIf(CAST(
            (r.offset, toUnixTimestamp64Milli(r.at), r.kind, r.call_id, r.tenant, r.agent, r.service, r.person, r.groups,
             r.shown_digest, r.preview_digest, r.approvable, r.verdict),
            'Tuple(offset Int64, at_ms Int64, kind String, call_id String, tenant String, agent String, service Bool, person String, groups Array(String), shown_digest String, preview_digest String, approvable Bool, verdict String)'),
            r.kind != 'Held')) AS said
    FROM fourgates.records AS r
    WHERE r.topic = 'approvals' AND r.record = 'ApprovalEvent'
    GROUP BY hold_id
    HAVING countIf(r.kind = 'Held') > 0
);
