-- Uploads of which there was no object, as far as anybody looked, once their row was collected and
-- what there was had been deleted. A client that was slow, or a server that finished late, may still
-- bring the bytes: then nothing names them, and storage_orphans can say what they are. What was
-- collected longer ago than a link to upload is good for is forgotten.
CREATE TABLE never_arrived (
    -- The bucket's name on its server: several entries of the settings may lead to one bucket.
    bucket       text COLLATE "C" NOT NULL,
    key          bytea NOT NULL,
    job          text COLLATE "C" NOT NULL,
    collected_at timestamptz NOT NULL DEFAULT clock_timestamp(),

    PRIMARY KEY (key, bucket)
);

COMMENT ON TABLE never_arrived IS
    'Keys of uploads whose row was collected and that had no object then, or none any more; what is '
    'there later is a late landing. Rows may be deleted by hand: then their objects are orphans like '
    'all others.';

CREATE INDEX never_arrived_oldest ON never_arrived (collected_at);
