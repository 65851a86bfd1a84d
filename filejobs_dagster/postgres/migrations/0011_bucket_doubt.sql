-- Buckets of which a complete pass found that the database looks older than they are: it was
-- restored from a backup, or is a copy. What such a database says is due may be in use by now, so
-- every live run is refused that goes by its rows, until a later pass finds otherwise or somebody
-- says that it is right.
CREATE TABLE bucket_doubt (
    endpoint text COLLATE "C" NOT NULL,
    bucket   text COLLATE "C" NOT NULL,
    -- The bucket's name in the settings: several entries may lead to one bucket.
    entry    text COLLATE "C" NOT NULL,
    since    timestamptz NOT NULL DEFAULT clock_timestamp(),
    run_id   text NOT NULL,
    found    text NOT NULL,

    PRIMARY KEY (endpoint, bucket, entry)
);

COMMENT ON TABLE bucket_doubt IS
    'Buckets that are newer than what this database knows; live runs are refused meanwhile.';
