-- What a row was made by, so that a later look knows what it may compare; and who was erased.

ALTER TABLE fourgates.events
    ADD COLUMN IF NOT EXISTS made_by LowCardinality(String) COMMENT 'digest of the build, the redaction and the key that made this row',
    ADD COLUMN IF NOT EXISTS erased_ms Int64 CODEC(ZSTD(1)) COMMENT 'when the personal data in it was erased; 0: it was not';

CREATE OR REPLACE VIEW fourgates.records AS
SELECT * FROM fourgates.events FINAL;

CREATE TABLE IF NOT EXISTS fourgates.erasures
(
    erasure_id     String,
    tenant         String,
    subject_digest String COMMENT 'keyed: who was erased cannot be read from it, but whoever holds the key can ask about a subject',
    pseudonym      String COMMENT 'stands in the rows in place of the subject and the person',
    asked_by       String,
    asked_ms       Int64,
    calls          Int64,
    rows           Int64,
    log_until_ms   Int64 COMMENT 'until then Kafka may still hold what was erased here',
    seal           String COMMENT 'keyed, over the fields before it'
)
ENGINE = ReplacingMergeTree
ORDER BY erasure_id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'who was erased when, without saying who';
