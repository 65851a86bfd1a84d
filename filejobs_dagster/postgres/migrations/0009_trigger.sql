-- Runs that were started over HTTP, for `filejobs serve-trigger` to count. One row a start, written
-- in the transaction that holds the installation's lock; rows of more than a day are removed by the
-- next start. What the runs did stands in job_run.
CREATE TABLE http_start (
    run_id       text PRIMARY KEY,
    installation text NOT NULL,
    job          text NOT NULL,
    token_name   text NOT NULL,
    asked_live   boolean NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE http_start IS 'Runs started over HTTP within the last day, to be counted.';
COMMENT ON COLUMN http_start.run_id IS 'The Dagster run.';
COMMENT ON COLUMN http_start.token_name IS 'The name that the settings give the token.';
COMMENT ON COLUMN http_start.asked_live IS 'Live was asked for by the request itself.';

CREATE INDEX http_start_newest ON http_start (installation, started_at DESC);
