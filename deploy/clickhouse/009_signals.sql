-- What in raw results speaks to a model, as the sanitizer counted it: something to look at, no control and no proof of an attack.

-- One row per answered call whose result gave a signal.
CREATE OR REPLACE VIEW fourgates.signals AS
SELECT
    f.call_id AS call_id, f.tenant AS tenant, f.tool AS tool, f.tool_version AS tool_version, f.agent AS agent, f.day AS day,
    f.asked_at AS asked_at, f.status AS status, s.signals AS signals
FROM fourgates.call_facts AS f
INNER JOIN
(
    SELECT call_id, arraySort(groupUniqArrayArray(JSONExtract(body, 'signals', 'Array(String)'))) AS signals
    FROM fourgates.records
    WHERE topic = 'calls.completed' AND record = 'CallCompleted' AND body != '{}'
    GROUP BY call_id
    HAVING notEmpty(signals)
) AS s ON s.call_id = f.call_id;

CREATE OR REPLACE VIEW fourgates.signals_by_tool AS
SELECT tool, signal, count() AS calls, max(asked_at) AS last_at
FROM fourgates.signals
ARRAY JOIN signals AS signal
GROUP BY tool, signal;
