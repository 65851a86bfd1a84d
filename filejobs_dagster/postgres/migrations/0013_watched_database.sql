-- What the last live runs have seen of the operator's own databases, where sources and reservations
-- are: so one that was restored and one that was left behind by a promotion are told from the one
-- that they were.
CREATE TABLE watched_database (
    installation      text COLLATE "C" NOT NULL,
    -- The environment variable that holds its address.
    name              text COLLATE "C" NOT NULL,
    system_identifier text COLLATE "C" NOT NULL,
    database_oid      bigint NOT NULL,
    -- NULL where a server does not say.
    timeline          bigint,
    log_position      bigint,
    seen_at           timestamptz NOT NULL DEFAULT clock_timestamp(),

    PRIMARY KEY (installation, name),
    CONSTRAINT watched_database_timeline_positive CHECK (timeline > 0)
);

COMMENT ON TABLE watched_database IS
    'The newest that live runs have seen of the operator''s databases; what is older is refused.';
COMMENT ON COLUMN watched_database.log_position IS
    'Bytes of log that were on the disk there (pg_current_wal_flush_lsn).';
