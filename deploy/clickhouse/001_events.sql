-- Every record of every topic but the watermarks, one row each, keyed by its position: a repeated batch collapses.

CREATE TABLE IF NOT EXISTS fourgates.events
(
    -- where it lies; the key
    topic            LowCardinality(String),
    partition        Int32,
    offset           Int64 CODEC(Delta, ZSTD(1)),
    at               DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)) COMMENT 'broker time',
    -- what it is
    record           LowCardinality(String) COMMENT 'record class; empty where it is invalid',
    kind             LowCardinality(String) COMMENT 'invalid: it did not decode, or its seal does not fit',
    event_id         String CODEC(ZSTD(1)),
    writer           LowCardinality(String) COMMENT 'who sealed it; run: a host, proved by the validator only',
    producer         String CODEC(ZSTD(1)),
    cause_event_id   String CODEC(ZSTD(1)),
    cause_topic      String CODEC(ZSTD(1)),
    cause_partition  Int64 CODEC(ZSTD(1)),
    cause_offset     Int64 CODEC(ZSTD(1)),
    trace_id         String CODEC(ZSTD(1)),
    value_digest     String CODEC(ZSTD(1)) COMMENT 'sha256 of the record''s bytes',
    value_bytes      Int64 CODEC(T64, ZSTD(1)),
    -- which call, and who asks
    call_id          String CODEC(ZSTD(1)),
    run_id           String CODEC(ZSTD(1)),
    tool_call_id     String CODEC(ZSTD(1)),
    tenant           LowCardinality(String),
    subject          String CODEC(ZSTD(1)),
    person           String CODEC(ZSTD(1)) COMMENT 'the human behind the account; for Decided: who decided',
    agent            LowCardinality(String),
    service          Bool COMMENT 'an unattended run under a service account',
    groups           Array(String) CODEC(ZSTD(1)) COMMENT 'of the subject; for Decided: of who decided',
    tool             String CODEC(ZSTD(1)),
    tool_version     String CODEC(ZSTD(1)),
    risk             LowCardinality(String),
    intent           String CODEC(ZSTD(1)) COMMENT 'redacted',
    arguments        String CODEC(ZSTD(3)) COMMENT 'redacted',
    args_digest      String CODEC(ZSTD(1)) COMMENT 'keyed digest: equal where the arguments are equal, and not to be guessed from; of a bare request: of its raw text',
    effect_key       String CODEC(ZSTD(1)) COMMENT 'its last part keyed',
    deadline_ms      Int64 CODEC(ZSTD(1)),
    -- why
    code             LowCardinality(String),
    code_class       LowCardinality(String),
    reason           String CODEC(ZSTD(1)),
    field            String CODEC(ZSTD(1)),
    sentence         String CODEC(ZSTD(1)) COMMENT 'redacted',
    final            Bool COMMENT 'its code ends a call',
    rules            Array(String) CODEC(ZSTD(1)),
    policies         Array(String) CODEC(ZSTD(1)),
    policies_digest  String CODEC(ZSTD(1)),
    obligations      Array(String) CODEC(ZSTD(1)),
    -- people
    hold_id          String CODEC(ZSTD(1)),
    hold_reason      LowCardinality(String),
    approver_group   LowCardinality(String),
    quorum           Int64 CODEC(ZSTD(1)),
    expires_ms       Int64 CODEC(ZSTD(1)) COMMENT '0: never',
    not_before_ms    Int64 CODEC(ZSTD(1)),
    approvable       Bool,
    verdict          LowCardinality(String),
    approvers        Array(String) CODEC(ZSTD(1)),
    shown_digest     String CODEC(ZSTD(1)) COMMENT 'keyed',
    preview_digest   String CODEC(ZSTD(1)) COMMENT 'keyed',
    -- what happened
    claim_id         String CODEC(ZSTD(1)),
    fence            Int64 CODEC(ZSTD(1)) COMMENT '-1: none',
    attempt          String CODEC(ZSTD(1)),
    sent_by          LowCardinality(String) COMMENT 'holder or recoverer',
    vouches          Nullable(Int64) CODEC(ZSTD(1)),
    outcome          LowCardinality(String),
    amount           Int64 CODEC(ZSTD(1)),
    started_ms       Int64 CODEC(ZSTD(1)),
    duration_ms      Int64 CODEC(ZSTD(1)),
    state_change     String CODEC(ZSTD(3)) COMMENT 'redacted',
    -- what the model was told
    observation      String CODEC(ZSTD(3)) COMMENT 'redacted once more',
    observation_digest String CODEC(ZSTD(1)) COMMENT 'keyed, of the bytes as they were told',
    output_bytes     Int64 CODEC(ZSTD(1)),
    truncated        Bool,
    redactions       Int64 CODEC(ZSTD(1)),
    replayed         Bool,
    -- for a dead record: where it lay
    origin_topic     LowCardinality(String),
    origin_partition Int64 CODEC(ZSTD(1)),
    origin_offset    Int64 CODEC(ZSTD(1)),
    -- everything else, redacted
    body             String CODEC(ZSTD(3)),
    INDEX by_call call_id TYPE bloom_filter(0.01) GRANULARITY 4,
    INDEX by_run run_id TYPE bloom_filter(0.01) GRANULARITY 4
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(at)
ORDER BY (topic, partition, offset)
TTL toDateTime(at) + INTERVAL 400 DAY
-- an offset is committed once its row is here, so a row must outlive the machine's power
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1
COMMENT 'all records, keyed by position; read `records` for each once';

CREATE OR REPLACE VIEW fourgates.records AS
SELECT * FROM fourgates.events FINAL;
