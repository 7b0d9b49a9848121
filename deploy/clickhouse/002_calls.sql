-- One row per call and one per hold: who asked for what, why it was allowed, what really happened.

-- The fold of calls.ledger: the first valid last word wins. The same rules as gates/ledger.py, which a test holds beside it.
CREATE OR REPLACE VIEW fourgates.ledger_states AS
SELECT
    call_id,
    folded.1 AS phase,
    folded.2 AS claim_id,
    folded.3 AS fence,
    length(folded.4) AS attempts,
    folded.6 AS outcome,
    folded.7 AS outcome_code,
    if(folded.1 = 'final', fromUnixTimestamp64Milli(folded.8, 'UTC'), NULL) AS ended_at,
    folded.9 = 1 AS is_read,
    all_attempts,
    claims,
    releases,
    replays,
    claimed_at,
    any_evidence
FROM
(
    SELECT
        call_id,
        groupArray((kind, claim_id, attempt, sent_by, ifNull(vouches, -2), outcome, code, final, toUnixTimestamp64Milli(at), offset)) AS unsorted,
        uniqExactIf(attempt, kind = 'Attempted') AS all_attempts,
        uniqExactIf(claim_id, kind = 'Claimed') AS claims,
        uniqExactIf(event_id, kind = 'Released') AS releases,
        uniqExactIf(event_id, kind = 'Replayed') AS replays,
        maxIf(at, kind = 'Claimed') AS claimed_at,
        countIf(kind IN ('Attempted', 'Finished')) > 0 AS any_evidence,
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
            arraySort(e -> e.10, unsorted),
            ('open', '', -1::Int64, emptyArrayString(), 0::UInt8, '', '', 0::Int64, 0::UInt8, emptyArrayString())
        ) AS folded
    FROM fourgates.records
    WHERE topic = 'calls.ledger' AND record = 'LedgerEntry' AND kind != 'Barrier'
    GROUP BY call_id
);

-- One row per hold: asked, shown, decided. The first terminal event in the log wins; a decision counts only where it names what
-- was shown and came before the expiry. A hold that joined an earlier one of the same call stays `open` without `shown_at`.
CREATE OR REPLACE VIEW fourgates.holds AS
WITH
    9223372036854775807::Int64 AS never,
    arrayFilter((y, i) -> indexOf(arrayMap(z -> z.3, yeses), y.3) = i, yeses, arrayEnumerate(yeses)) AS first_yeses,
    if(length(first_yeses) >= greatest(quorum, 1), first_yeses[greatest(quorum, 1)].1, never) AS approved,
    least(denied, approved, expired, withdrawn, resolved) AS ended
SELECT
    hold_id, call_id, tenant, tool, agent, subject, hold_reason, approver_group, quorum, args_digest, tool_version, expires_ms,
    held_at, shown_at, shown_digest, preview_digest, arrayMap(y -> y.3, first_yeses) AS approved_by, denied_by, resolved_by, resolved_as,
    multiIf(
        ended = never, 'open',
        ended = denied, 'denied',
        ended = approved, 'approved',
        ended = expired, 'expired',
        ended = withdrawn, 'withdrawn',
        'resolved'
    ) AS state,
    if(ended = never, NULL, times[ended]) AS ended_at,
    dateDiff('millisecond', held_at, ended_at) AS waited_ms
FROM
(
    SELECT
        hold_id,
        any(call_id) AS call_id, any(tenant) AS tenant, any(tool) AS tool, any(agent) AS agent, any(subject) AS subject,
        any(hold_reason) AS hold_reason, any(approver_group) AS approver_group, any(quorum) AS quorum,
        any(args_digest) AS args_digest, any(tool_version) AS tool_version, any(expires_ms) AS expires_ms,
        any(held_at) AS held_at, any(shown_at) AS shown_at, any(shown_digest) AS shown_digest, any(preview_digest) AS preview_digest,
        arraySort(groupArrayIf((offset, at, decider), counts AND verdict = 'approve')) AS yeses,
        ifNull(minOrNullIf(offset, counts AND verdict = 'deny'), 9223372036854775807) AS denied,
        ifNull(minOrNullIf(offset, expires), 9223372036854775807) AS expired,
        ifNull(minOrNullIf(offset, kind = 'Withdrawn'), 9223372036854775807) AS withdrawn,
        ifNull(minOrNullIf(offset, counts AND verdict IN ('committed', 'not_applied')), 9223372036854775807) AS resolved,
        argMinIf(decider, offset, counts AND verdict = 'deny') AS denied_by,
        argMinIf(decider, offset, counts AND verdict IN ('committed', 'not_applied')) AS resolved_by,
        argMinIf(verdict, offset, counts AND verdict IN ('committed', 'not_applied')) AS resolved_as,
        CAST((groupArray(offset), groupArray(at)), 'Map(Int64, DateTime64(3, \'UTC\'))') AS times
    FROM
    (
        SELECT
            e.hold_id AS hold_id, e.offset AS offset, e.at AS at, e.kind AS kind, e.verdict AS verdict, e.person AS decider,
            h.call_id AS call_id, h.tenant AS tenant, h.tool AS tool, h.agent AS agent, h.subject AS subject,
            h.hold_reason AS hold_reason, h.approver_group AS approver_group, h.quorum AS quorum, h.args_digest AS args_digest,
            h.tool_version AS tool_version, h.expires_ms AS expires_ms, h.held_at AS held_at, h.shown_at AS shown_at,
            h.shown_digest AS shown_digest, h.preview_digest AS preview_digest,
            toUnixTimestamp64Milli(e.at) AS at_ms,
            e.kind = 'Expired' AND h.expires_ms != 0 AND at_ms >= h.expires_ms AS expires,
            -- by a person of the group, not the asker's own, on what was shown, in time
            e.kind = 'Decided'
                AND e.agent = '' AND NOT e.service AND e.person NOT IN ('', h.asker) AND e.tenant = h.tenant
                AND has(e.groups, h.approver_group)
                AND e.offset > h.shown_offset AND e.shown_digest = h.shown_digest
                AND (h.expires_ms = 0 OR at_ms < h.expires_ms)
                AND multiIf(
                    h.hold_reason = 'in_doubt', e.verdict = 'committed' OR (e.verdict = 'not_applied' AND at_ms >= h.not_before_ms),
                    e.verdict = 'deny' OR (e.verdict = 'approve' AND h.approvable)) AS counts
        FROM fourgates.records AS e
        INNER JOIN
        (
            SELECT
                hold_id,
                any(call_id) AS call_id,
                argMinIf(tenant, offset, kind = 'Held') AS tenant,
                argMinIf(tool, offset, kind = 'Held') AS tool,
                argMinIf(agent, offset, kind = 'Held') AS agent,
                argMinIf(subject, offset, kind = 'Held') AS subject,
                argMinIf(hold_reason, offset, kind = 'Held') AS hold_reason,
                argMinIf(approver_group, offset, kind = 'Held') AS approver_group,
                argMinIf(quorum, offset, kind = 'Held') AS quorum,
                argMinIf(args_digest, offset, kind = 'Held') AS args_digest,
                argMinIf(tool_version, offset, kind = 'Held') AS tool_version,
                argMinIf(person, offset, kind = 'Held') AS asker,
                argMinIf(not_before_ms, offset, kind = 'Held') AS not_before_ms,
                argMinIf(expires_ms, offset, kind = 'Held') AS expires_ms,
                minIf(at, kind = 'Held') AS held_at,
                minOrNullIf(at, kind = 'Requested') AS shown_at,
                ifNull(minOrNullIf(offset, kind = 'Requested'), 9223372036854775807) AS shown_offset,
                argMinIf(shown_digest, offset, kind = 'Requested') AS shown_digest,
                argMinIf(preview_digest, offset, kind = 'Requested') AS preview_digest,
                argMinIf(approvable, offset, kind = 'Requested') AS approvable
            FROM fourgates.records
            WHERE topic = 'approvals' AND record = 'ApprovalEvent'
            GROUP BY hold_id
            HAVING countIf(kind = 'Held') > 0
        ) AS h ON h.hold_id = e.hold_id
        WHERE e.topic = 'approvals' AND e.record = 'ApprovalEvent'
    )
    GROUP BY hold_id
);

CREATE OR REPLACE VIEW fourgates.attribution AS
SELECT * FROM values(
    'code String, attributed_to String',
    ('invalid_arguments', 'model'), ('unknown_tool', 'model'), ('duplicate_effect', 'model'),
    ('identity_invalid', 'host'), ('idempotency_conflict', 'host'), ('cancelled', 'host'), ('call_too_old', 'host'),
    ('cancel_too_late', 'host'),
    ('permission_denied', 'rule_or_policy'), ('approval_required', 'rule_or_policy'), ('quota_exceeded', 'rule_or_policy'),
    ('tool_disabled', 'rule_or_policy'), ('rule_violated', 'rule_or_policy'), ('origin_refused', 'rule_or_policy'),
    ('approval_denied', 'approver'), ('approval_expired', 'approver'), ('approval_pending', 'approver'),
    ('tool_failed', 'tool'), ('timeout', 'tool'),
    ('unavailable', 'downstream'), ('in_doubt', 'downstream'), ('approval_effect_changed', 'downstream'),
    ('rate_limited', 'us'), ('audit_unavailable', 'us'), ('tool_changed', 'us'), ('budget_exhausted', 'us'),
    ('internal', 'us'), ('run_stopped', 'us'),
    ('ok', '')
);

-- One row per call that any gate has vouched for; a bare request proves nothing and is no call.
CREATE OR REPLACE VIEW fourgates.calls AS
SELECT
    c.call_id AS call_id,
    c.* EXCEPT (call_id, first_request, first_seen, answered_at),
    if(c.decided, c.answered_at, NULL) AS answered_at,
    ifNull(nullIf(l.phase, ''), 'open') AS phase,
    l.outcome AS outcome,
    l.outcome_code AS outcome_code,
    l.all_attempts AS attempts,
    l.claims AS claims,
    l.releases AS releases,
    l.replays AS replays,
    l.claimed_at AS claimed_at,
    l.ended_at AS ended_at,
    l.any_evidence = 1 OR c.last_code = 'timeout' AS ran,
    multiIf(
        c.decided, c.answered_code,
        l.phase = 'in_doubt', 'in_doubt',
        c.last_code
    ) AS code,
    h.holds AS holds,
    h.hold_reasons AS hold_reasons,
    h.hold_states AS hold_states,
    h.waited_ms AS waited_ms,
    a.attributed_to AS attributed_to,
    multiIf(
        c.decided AND c.answered_code = 'ok', 'succeeded',
        c.decided AND l.outcome IN ('failed', 'not_applied'), 'failed',
        c.decided, 'refused',
        l.phase = 'in_doubt', 'in_doubt',
        'open'
    ) AS status,
    if(c.decided, dateDiff('millisecond', c.asked_at, c.answered_at), NULL) AS latency_ms,
    toDate(c.asked_at) AS day
FROM
(
    SELECT
        call_id,
        minIf(at, record = 'CallRequested' AND kind = 'call') AS first_request,
        min(at) AS first_seen,
        if(first_request > toDateTime64(0, 3, 'UTC'), first_request, first_seen) AS asked_at,
        argMinIf(tenant, (at, offset), tenant != '') AS tenant,
        argMinIf(subject, (at, offset), subject != '' AND topic != 'approvals') AS subject,
        argMinIf(person, (at, offset), person != '' AND topic != 'approvals') AS person,
        argMinIf(agent, (at, offset), agent != '') AS agent,
        argMinIf(run_id, (at, offset), run_id != '' AND record != 'CallRequested') AS run_id,
        argMinIf(tool_call_id, (at, offset), tool_call_id != '' AND record != 'CallRequested') AS tool_call_id,
        argMinIf(tool, (at, offset), tool != '' AND record != 'CallRequested') AS tool,
        argMinIf(tool_version, (at, offset), tool_version != '' AND record != 'CallRequested') AS tool_version,
        argMinIf(risk, (at, offset), risk != '') AS risk,
        argMinIf(intent, (at, offset), record = 'CallValidated') AS intent,
        argMinIf(arguments, (at, offset), record = 'CallValidated') AS arguments,
        argMinIf(args_digest, (at, offset), record = 'CallValidated') AS args_digest,
        argMinIf(effect_key, (at, offset), record = 'CallValidated') AS effect_key,
        countIf(record = 'CallValidated') > 0 AS validated,
        countIf(record = 'CallCleared' AND kind = 'cleared') > 0 AS cleared,
        minOrNullIf(at, record = 'CallCleared' AND kind = 'cleared') AS cleared_at,
        argMaxIf(rules, (at, offset), length(rules) > 0) AS rules,
        argMaxIf(policies, (at, offset), length(policies) > 0) AS policies,
        argMaxIf(policies_digest, (at, offset), policies_digest != '') AS policies_digest,
        argMaxIf(obligations, (at, offset), record = 'CallCleared') AS obligations,
        argMaxIf(approvers, (at, offset), record = 'CallCleared') AS approvers,
        argMaxIf(state_change, (at, offset), state_change != '') AS state_change,
        maxIf(duration_ms, kind = 'Finished') AS duration_ms,
        -- readers keep the first final answer; all answers of a call lie on one partition
        countIf(record = 'CallCompleted' AND final) > 0 AS decided,
        argMinIf(code, offset, record = 'CallCompleted' AND final) AS answered_code,
        argMinIf(reason, offset, record = 'CallCompleted' AND final) AS reason,
        argMinIf(observation, offset, record = 'CallCompleted' AND final) AS observation,
        argMinIf(output_bytes, offset, record = 'CallCompleted' AND final) AS output_bytes,
        argMinIf(truncated, offset, record = 'CallCompleted' AND final) AS truncated,
        argMinIf(redactions, offset, record = 'CallCompleted' AND final) AS redactions,
        argMinIf(at, offset, record = 'CallCompleted' AND final) AS answered_at,
        argMaxIf(code, offset, record = 'CallCompleted' AND NOT final) AS last_code,
        uniqExactIf(event_id, record = 'CallCompleted') AS answers
    FROM fourgates.records
    WHERE call_id != '' AND topic NOT IN ('effects', 'records.dead') AND kind != 'invalid' AND kind != 'Barrier'
    GROUP BY call_id
    HAVING countIf(record != 'CallRequested') > 0
) AS c
LEFT JOIN fourgates.ledger_states AS l ON l.call_id = c.call_id
LEFT JOIN
(
    SELECT
        call_id,
        count() AS holds,
        groupUniqArray(hold_reason) AS hold_reasons,
        groupUniqArray(state) AS hold_states,
        sum(waited_ms) AS waited_ms
    FROM fourgates.holds
    GROUP BY call_id
) AS h ON h.call_id = c.call_id
LEFT JOIN fourgates.attribution AS a ON a.code = multiIf(c.decided, c.answered_code, l.phase = 'in_doubt', 'in_doubt', c.last_code);
