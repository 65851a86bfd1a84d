-- What ran, how it ended, and what it did.

-- One row per finished run, written once. An operational record, not evidence: it is not chained.
CREATE TABLE job_run (
    id           bigserial PRIMARY KEY,
    run_id       text NOT NULL,
    installation text NOT NULL,
    job          text NOT NULL,
    started_at   timestamptz NOT NULL,
    finished_at  timestamptz NOT NULL DEFAULT now(),
    outcome      text NOT NULL,
    mode         text NOT NULL,
    scanned      bigint,
    acted        bigint,
    detail       jsonb NOT NULL DEFAULT '{}'::jsonb,
    error        text,

    CONSTRAINT job_run_run_id_unique UNIQUE (run_id),
    CONSTRAINT job_run_job_known CHECK (job IN (
        'upload_reservations', 'storage_orphans', 'upload_cleanup', 'multipart_uploads',
        'deleted_files', 'table_retention', 'audit_trim', 'audit_seal', 'audit_verify',
        'run_history')),
    CONSTRAINT job_run_outcome_known CHECK (outcome IN ('ok', 'failed')),
    CONSTRAINT job_run_mode_known CHECK (mode IN ('dry', 'live')),
    CONSTRAINT job_run_error_iff_failed CHECK ((outcome = 'failed') = (error IS NOT NULL)),
    CONSTRAINT job_run_counts_not_negative CHECK (scanned >= 0 AND acted >= 0)
);

COMMENT ON TABLE job_run IS 'Append-only: one row per finished run.';
COMMENT ON COLUMN job_run.run_id IS 'The Dagster run.';
COMMENT ON COLUMN job_run.mode IS 'The effective mode, never the requested one.';
COMMENT ON COLUMN job_run.scanned IS 'NULL: the run decided nothing. Zero is a claim.';
COMMENT ON COLUMN job_run.acted IS 'NULL: the run decided nothing. Zero is a claim.';

-- The newest run, the newest success that counts, and the failures since: each is found without
-- reading the runs in between, of which a job has a hundred thousand in three years.
CREATE INDEX job_run_standing ON job_run (installation, job, finished_at DESC, id DESC);
CREATE INDEX job_run_swept ON job_run (installation, job, mode, finished_at DESC, id DESC)
    WHERE outcome = 'ok' AND detail #>> '{window,covers}' = 'everything';
CREATE INDEX job_run_failed ON job_run (installation, job, finished_at DESC, id DESC)
    WHERE outcome = 'failed';

CREATE RULE job_run_never_updated AS ON UPDATE TO job_run DO INSTEAD NOTHING;
CREATE RULE job_run_never_deleted AS ON DELETE TO job_run DO INSTEAD NOTHING;

-- Rules do not see TRUNCATE.
CREATE FUNCTION refuse_truncate() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION '% is append-only and cannot be truncated', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER job_run_never_truncated
    BEFORE TRUNCATE ON job_run
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate();

-- One row per run that started, updated in the same transaction as each batch. The row is open
-- until the run's record stands in job_run; whoever finds it closed has been given up for dead.
CREATE TABLE job_progress (
    run_id       text PRIMARY KEY,
    installation text NOT NULL,
    job          text NOT NULL,
    mode         text NOT NULL,
    trigger      text NOT NULL,
    trigger_name text,
    holder       text NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    scanned      bigint,
    acted        bigint,
    detail       jsonb NOT NULL DEFAULT '{}'::jsonb,
    outcome      text,
    error        text,
    finished_at  timestamptz,
    -- When a mirror first found neither a final outcome nor a live lock.
    silent_since timestamptz,
    closed_at    timestamptz,

    CONSTRAINT job_progress_mode_known CHECK (mode IN ('dry', 'live')),
    CONSTRAINT job_progress_trigger_known CHECK (trigger IN (
        'schedule', 'sensor', 'ui', 'cli', 'backfill', 'http', 'retry')),
    CONSTRAINT job_progress_outcome_known CHECK (outcome IN ('ok', 'failed')),
    CONSTRAINT job_progress_error_iff_failed
        CHECK ((outcome IS NOT DISTINCT FROM 'failed') = (error IS NOT NULL)),
    CONSTRAINT job_progress_finished_with_outcome
        CHECK ((outcome IS NULL) = (finished_at IS NULL))
);

COMMENT ON TABLE job_progress IS 'What each run is doing; closed when job_run has its record.';

CREATE INDEX job_progress_open ON job_progress (installation, job, started_at)
    WHERE closed_at IS NULL;

-- How far the mirror has read in Dagster's run storage.
CREATE TABLE mirror_watermark (
    installation text PRIMARY KEY,
    read_until   timestamptz NOT NULL,
    wide_scan_at timestamptz NOT NULL
);

COMMENT ON TABLE mirror_watermark IS
    'Every finished run of the installation up to read_until stands in job_run.';
