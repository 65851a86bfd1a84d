-- Objects that no row names: what was seen of them, what is about to be deleted, and which bucket
-- belongs to this database.

-- One row per object that a complete pass found without a reference.
CREATE TABLE orphan_candidate (
    -- The bucket's name in the settings.
    bucket         text COLLATE "C" NOT NULL,
    -- Bytes, because a key may hold what text cannot.
    key            bytea NOT NULL,
    -- The object as it was seen: another ETag, size or time is another object of the same key.
    etag           text NOT NULL,
    size_bytes     bigint NOT NULL,
    last_modified  timestamptz NOT NULL,
    first_seen_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    first_seen_run text NOT NULL,
    last_seen_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen_run  text NOT NULL,
    sightings      integer NOT NULL DEFAULT 1,
    -- Of the sources and rules that it was judged by.
    fingerprint    text NOT NULL,
    state          text NOT NULL DEFAULT 'seen',
    reason         text,
    not_before     timestamptz,
    intent_at      timestamptz,
    intent_run     text,

    -- The key first: whoever refers to a key asks for it without knowing the bucket.
    PRIMARY KEY (key, bucket),
    CONSTRAINT orphan_candidate_key_is_a_key CHECK (octet_length(key) BETWEEN 1 AND 1024),
    CONSTRAINT orphan_candidate_size_not_negative CHECK (size_bytes >= 0),
    CONSTRAINT orphan_candidate_sightings_positive CHECK (sightings > 0),
    CONSTRAINT orphan_candidate_seen_in_order CHECK (first_seen_at <= last_seen_at),
    CONSTRAINT orphan_candidate_state_known
        CHECK (state IN ('seen', 'deleting', 'locked', 'failed')),
    CONSTRAINT orphan_candidate_deleting_with_intent
        CHECK (state <> 'deleting' OR (intent_at IS NOT NULL AND intent_run IS NOT NULL))
) WITH (fillfactor = 85);  -- every pass updates the sighting: leave room for HOT updates

COMMENT ON TABLE orphan_candidate IS
    'Objects without a reference, as complete passes saw them. A row in state deleting forbids to '
    'refer to its key.';

-- The order in which orphans are taken: oldest first.
CREATE INDEX orphan_candidate_drain ON orphan_candidate (bucket, last_modified, key)
    WHERE state = 'seen';

-- What a run that died was about to delete; empty otherwise.
CREATE INDEX orphan_candidate_deleting ON orphan_candidate (bucket, key)
    WHERE state = 'deleting';

-- One row per complete pass over a bucket: what the next one is compared with.
CREATE TABLE orphan_pass (
    bucket          text COLLATE "C" NOT NULL,
    run_id          text NOT NULL,
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    mode            text NOT NULL,
    fingerprint     text NOT NULL,
    objects         bigint NOT NULL,
    bytes           bigint NOT NULL,
    -- How many keys each source returned, by its name.
    keys_by_source  jsonb NOT NULL,
    orphans         bigint NOT NULL,
    orphan_bytes    bigint NOT NULL,

    PRIMARY KEY (bucket, run_id),
    CONSTRAINT orphan_pass_mode_known CHECK (mode IN ('dry', 'live')),
    CONSTRAINT orphan_pass_counts_not_negative
        CHECK (objects >= 0 AND bytes >= 0 AND orphans >= 0 AND orphan_bytes >= 0)
);

COMMENT ON TABLE orphan_pass IS 'Complete passes only: a run that a breaker stopped has no row.';

CREATE INDEX orphan_pass_newest ON orphan_pass (bucket, at DESC);

-- One row per bucket that this database has adopted; its other half is the marker in the bucket.
CREATE TABLE bucket_adoption (
    -- The bucket's name on the server, and the server: several entries of the settings may lead to
    -- one bucket, and then share its counter.
    endpoint           text COLLATE "C" NOT NULL,
    bucket             text COLLATE "C" NOT NULL,
    installation       text NOT NULL,
    environment        text,
    -- Raised here and committed before it is raised in the marker. A marker that is ahead tells
    -- that this database was restored from a backup.
    counter            bigint NOT NULL,
    adopted_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    adopted_by         text NOT NULL,
    -- Whether a deletion with a condition is obeyed: found out by trying it on an object of ours.
    conditional_delete text,
    probed_at          timestamptz,
    probed_server      text,

    PRIMARY KEY (endpoint, bucket),
    CONSTRAINT bucket_adoption_counter_not_negative CHECK (counter >= 0),
    CONSTRAINT bucket_adoption_conditional_delete_known
        CHECK (conditional_delete IN (
            'honoured', 'single only', 'batch only', 'ignored', 'unsupported')),
    CONSTRAINT bucket_adoption_probed_at_with_result
        CHECK ((conditional_delete IS NULL) = (probed_at IS NULL))
);

COMMENT ON TABLE bucket_adoption IS
    'Buckets that this database has adopted, with the counter that their markers follow.';

-- Refuses to refer to a key whose object is about to be deleted.
--
-- The candidate's row is locked until the transaction ends, whatever its state: a collector that
-- wants to delete the object then passes it by, and one that has said so already is seen here. The
-- state must not stand in the WHERE clause: a row that is about to become 'deleting' would then
-- not be waited for. Under REPEATABLE READ a row that changed since the snapshot raises a
-- serialization failure, which refuses as well.
--
-- Runs with the rights of its owner, so that the application needs none on orphan_candidate.
-- For another table name the column, text, as the argument:
--   CREATE TRIGGER … AFTER INSERT OR UPDATE OF avatar_key ON account
--       FOR EACH ROW EXECUTE FUNCTION refuse_key_in_deletion('avatar_key');
CREATE FUNCTION refuse_key_in_deletion() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
DECLARE
    referred text;
    refused  boolean;
BEGIN
    IF TG_NARGS = 0 THEN
        referred := NEW.storage_key;
    ELSE
        referred := to_jsonb(NEW) ->> TG_ARGV[0];
    END IF;
    SELECT bool_or(candidate.state = 'deleting')
      INTO refused
      FROM (SELECT state
              FROM orphan_candidate
             WHERE key = convert_to(referred, 'UTF8')
               FOR SHARE) AS candidate;
    IF refused THEN
        RAISE EXCEPTION 'the object % is being deleted, because nothing referred to it', referred
            USING ERRCODE = 'integrity_constraint_violation',
                  TABLE = TG_TABLE_NAME,
                  SCHEMA = TG_TABLE_SCHEMA,
                  CONSTRAINT = TG_NAME,
                  DETAIL = 'A run of storage_orphans has committed its intent to delete it.',
                  HINT = 'Upload the bytes again under a new key, and refer to that. Keys are '
                         'never used twice.';
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION refuse_key_in_deletion() IS
    'Trigger: refuses a row that names a key which a collector is about to delete.';

-- After, so that it sees what other triggers have made of the row.
CREATE TRIGGER file_refuses_key_in_deletion
    AFTER INSERT ON file
    FOR EACH ROW EXECUTE FUNCTION refuse_key_in_deletion();

CREATE TRIGGER file_refuses_changed_key_in_deletion
    AFTER UPDATE ON file
    FOR EACH ROW
    WHEN (OLD.storage_key IS DISTINCT FROM NEW.storage_key)
    EXECUTE FUNCTION refuse_key_in_deletion();

-- Also for rows that logical replication or a restore brings.
ALTER TABLE file ENABLE ALWAYS TRIGGER file_refuses_key_in_deletion;
ALTER TABLE file ENABLE ALWAYS TRIGGER file_refuses_changed_key_in_deletion;
