-- Uploads with a durable record: a row stands before the first byte is written, and it names the
-- object until the object is known to be gone. Every transition is one UPDATE that repeats the
-- state it starts from, so of two clients that want different endings exactly one wins; a trigger
-- refuses every other transition, whoever writes it.
--
--   writing   -> stored, uncertain; cleanup when a cancel was remembered and the writer has ended
--   uncertain -> stored, cleanup
--   stored    -> ready, cleanup
--   ready     -> cleanup, by removing the attachment
--   cleanup   -> cleaned, retained
--   retained  -> cleanup
--   cleaned   is final

CREATE TABLE upload (
    -- Made by the database at the INSERT, and so never chosen by a client, nor used again.
    id                  uuid PRIMARY KEY,
    state               text NOT NULL DEFAULT 'writing',
    key_prefix          text COLLATE "C" NOT NULL,
    key_suffix          text COLLATE "C" NOT NULL DEFAULT '',
    -- Bytes are compared, never a collation: COLLATE "C" keeps equality and order those of UTF-8.
    storage_key         text COLLATE "C" NOT NULL
                        GENERATED ALWAYS AS (key_prefix || id::text || key_suffix) STORED,
    upload_id           text,
    etag                text,
    version_id          text,
    size_bytes          bigint,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    activity_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    stored_at           timestamptz,
    cancel_requested_at timestamptz,
    uncertain_since     timestamptz,
    uncertain_reason    text,
    collectable_at      timestamptz,
    next_attempt_at     timestamptz,
    attempts            integer NOT NULL DEFAULT 0,
    forgiven            integer NOT NULL DEFAULT 0,
    claimed_at          timestamptz,
    claimed_by          text,
    last_error          text,
    dead_at             timestamptz,
    retained_until      timestamptz,
    legal_hold          boolean NOT NULL DEFAULT false,
    cleaned_at          timestamptz,
    outcome             text,

    CONSTRAINT upload_state_known CHECK (state IN (
        'writing', 'stored', 'ready', 'cleanup', 'cleaned', 'uncertain', 'retained')),
    CONSTRAINT upload_storage_key_unique UNIQUE (storage_key),
    CONSTRAINT upload_storage_key_is_a_key CHECK (octet_length(storage_key) BETWEEN 1 AND 1024),
    -- Segments that are empty, "." or ".." are lost or resolved by some servers and proxies, and
    -- control characters do not survive XML: the object would then have another key than its row.
    CONSTRAINT upload_key_prefix_is_a_folder
        CHECK (key_prefix ~ '^([^/]+/)+$'
               AND key_prefix !~ '(^|/)[.]{1,2}/' AND key_prefix !~ '[\x01-\x1f\x7f]'),
    CONSTRAINT upload_key_suffix_is_a_name
        CHECK (key_suffix !~ '//|/$' AND key_suffix !~ '/[.]{1,2}(/|$)'
               AND key_suffix !~ '[\x01-\x1f\x7f]'),
    CONSTRAINT upload_upload_id_not_empty CHECK (octet_length(upload_id) BETWEEN 1 AND 4096),
    CONSTRAINT upload_etag_without_quotes
        CHECK (octet_length(etag) BETWEEN 1 AND 1024 AND strpos(etag, '"') = 0),
    CONSTRAINT upload_version_id_not_empty CHECK (octet_length(version_id) BETWEEN 1 AND 1024),
    CONSTRAINT upload_counts_not_negative
        CHECK (size_bytes >= 0 AND attempts >= 0 AND forgiven BETWEEN 0 AND attempts),
    CONSTRAINT upload_stored_with_its_moment
        CHECK (state NOT IN ('stored', 'ready') OR stored_at IS NOT NULL),
    CONSTRAINT upload_uncertain_with_its_moment
        CHECK (state <> 'uncertain'
               OR (uncertain_since IS NOT NULL AND next_attempt_at IS NOT NULL)),
    CONSTRAINT upload_cleanup_with_its_moment
        CHECK ((state IN ('cleanup', 'cleaned', 'retained')) = (collectable_at IS NOT NULL)),
    CONSTRAINT upload_cleanup_is_due_at_some_moment
        CHECK (state <> 'cleanup' OR next_attempt_at IS NOT NULL),
    CONSTRAINT upload_dead_letters_await_cleanup CHECK (dead_at IS NULL OR state = 'cleanup'),
    CONSTRAINT upload_retained_with_a_reason
        CHECK (state <> 'retained' OR retained_until IS NOT NULL OR legal_hold),
    CONSTRAINT upload_cleaned_with_its_outcome
        CHECK ((state = 'cleaned') = (cleaned_at IS NOT NULL)
               AND (state = 'cleaned') = (outcome IS NOT NULL)),
    CONSTRAINT upload_outcome_known CHECK (outcome IN (
        'deleted', 'marked', 'already gone', 'superseded', 'never arrived')),
    -- No infinity and no years that a client's calendar cannot hold: such a row would make every
    -- reader of the oldest one fail.
    CONSTRAINT upload_moments_are_dates
        CHECK (activity_at >= '0001-01-03Z' AND activity_at < '9999-01-01Z'
               AND collectable_at >= '0001-01-03Z' AND collectable_at < '9999-01-01Z'
               AND next_attempt_at >= '0001-01-03Z' AND next_attempt_at < '9999-01-01Z'
               AND retained_until >= '0001-01-03Z' AND retained_until < '9999-01-01Z')
);

COMMENT ON TABLE upload IS
    'One row per attempt to store an object. It names its object in every state but cleaned.';
COMMENT ON COLUMN upload.id IS 'Made by the database; an INSERT that brings its own is refused.';
COMMENT ON COLUMN upload.storage_key IS
    'The exact key of the object: prefix, the row''s id, suffix. Never changed, never used twice.';
COMMENT ON COLUMN upload.upload_id IS
    'The provider''s id of the multipart upload. NULL: a single PUT, or not begun.';
COMMENT ON COLUMN upload.etag IS
    'As the provider gave it, without quotes. NULL: it gave none.';
COMMENT ON COLUMN upload.activity_at IS 'The last sign of life of whoever writes the object.';
COMMENT ON COLUMN upload.cancel_requested_at IS
    'Cancelled while it was written: honoured when the writer ends.';
COMMENT ON COLUMN upload.collectable_at IS
    'Since when the object may go: set once, by the transition to cleanup.';
COMMENT ON COLUMN upload.next_attempt_at IS
    'Not to be looked at before (cleanup, uncertain).';
COMMENT ON COLUMN upload.attempts IS
    'Raised by each claim and never lowered: a worker whose number is no longer this one has lost.';
COMMENT ON COLUMN upload.forgiven IS
    'Attempts that no longer count towards the limit, because somebody asked for another try.';
COMMENT ON COLUMN upload.dead_at IS
    'A dead letter: given up after too many attempts, and still named by this row.';
COMMENT ON COLUMN upload.outcome IS 'How it ended; only with cleaned.';

CREATE TABLE attachment (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    upload_id   uuid NOT NULL REFERENCES upload,
    storage_key text COLLATE "C" NOT NULL,
    subject     text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT attachment_upload_unique UNIQUE (upload_id),
    CONSTRAINT attachment_storage_key_unique UNIQUE (storage_key),
    CONSTRAINT attachment_subject_not_empty CHECK (octet_length(subject) BETWEEN 1 AND 2048)
);

COMMENT ON TABLE attachment IS
    'What users see: one row per published upload. Its removal moves the upload to cleanup.';
COMMENT ON COLUMN attachment.subject IS 'What it belongs to, in the application''s own words.';

CREATE INDEX attachment_of_subject ON attachment (subject, created_at);

-- Each state has its own order of work; all are small while the work is done.
CREATE INDEX upload_due ON upload (next_attempt_at, id)
    WHERE state = 'cleanup' AND dead_at IS NULL;
CREATE INDEX upload_collectable ON upload (collectable_at, id) WHERE state = 'cleanup';
CREATE INDEX upload_dead ON upload (dead_at, id) WHERE dead_at IS NOT NULL;
CREATE INDEX upload_uncertain ON upload (next_attempt_at, id) WHERE state = 'uncertain';
CREATE INDEX upload_writing ON upload (activity_at, id) WHERE state = 'writing';
CREATE INDEX upload_stored ON upload (stored_at, id) WHERE state = 'stored';
CREATE INDEX upload_retained ON upload (retained_until, id) WHERE state = 'retained';
CREATE INDEX upload_cleaned ON upload (cleaned_at, id) WHERE state = 'cleaned';

-- What no client can get around -----------------------------------------------------------------

-- A row begins in writing, under an id that nobody has chosen. Without a column default a client's
-- own id can be told from a missing one, and is refused: an id that was used before would bring
-- back the key of an object that may still be there, or whose deletion is on its way.
CREATE FUNCTION make_upload_id() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF NEW.id IS NOT NULL THEN
        RAISE EXCEPTION 'the id of an upload is made by the database, and % was brought along', NEW.id
            USING ERRCODE = 'integrity_constraint_violation',
                  HINT = 'Call begin_upload(prefix). A data-only restore needs '
                         'pg_restore --disable-triggers.';
    END IF;
    IF NEW.state IS DISTINCT FROM 'writing' THEN
        RAISE EXCEPTION 'an upload begins in state writing, not in %', coalesce(NEW.state, 'NULL')
            USING ERRCODE = 'integrity_constraint_violation',
                  HINT = 'Call begin_upload(prefix), and mark_stored once the bytes are there.';
    END IF;
    NEW.id := gen_random_uuid();
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION make_upload_id() IS
    'Trigger: an upload begins in writing, under an id and a key that the database makes.';

CREATE TRIGGER upload_begins
    BEFORE INSERT ON upload
    FOR EACH ROW EXECUTE FUNCTION make_upload_id();

-- Refuses every transition but those at the head of this file, and fills in the moments that a
-- transition brings when the statement does not.
--
-- With the rights of its owner, so that neither missing rights nor a row policy hide an attachment.
CREATE FUNCTION check_upload_transition() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
BEGIN
    IF (NEW.id, NEW.key_prefix, NEW.key_suffix)
       IS DISTINCT FROM (OLD.id, OLD.key_prefix, OLD.key_suffix) THEN
        RAISE EXCEPTION 'the key of upload % cannot change', OLD.id
            USING ERRCODE = 'integrity_constraint_violation',
                  HINT = 'Another object is another upload: begin_upload(prefix).';
    END IF;
    IF NEW.attempts < OLD.attempts THEN
        RAISE EXCEPTION 'the attempts of upload % cannot go back from % to %',
                OLD.id, OLD.attempts, NEW.attempts
            USING ERRCODE = 'integrity_constraint_violation',
                  HINT = 'An abandoned worker would hold its old claim again. To grant more '
                         'attempts raise "forgiven".';
    END IF;
    IF NEW.upload_id IS DISTINCT FROM OLD.upload_id AND OLD.upload_id IS NOT NULL
       AND OLD.state <> 'cleaned' THEN
        RAISE EXCEPTION 'upload % already has a multipart upload', OLD.id
            USING ERRCODE = 'integrity_constraint_violation',
                  HINT = 'Abort the new one; a retry is a new upload with a new key.';
    END IF;
    IF NEW.collectable_at IS DISTINCT FROM OLD.collectable_at
       AND OLD.collectable_at IS NOT NULL THEN
        RAISE EXCEPTION 'the day on which upload % became collectable cannot change', OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.state IS NOT DISTINCT FROM OLD.state THEN
        RETURN NEW;
    END IF;

    -- In parentheses: the THEN of a CASE would end the condition.
    IF NOT (CASE OLD.state
           WHEN 'writing' THEN
               NEW.state IN ('stored', 'uncertain')
               OR (NEW.state = 'cleanup'
                   AND OLD.cancel_requested_at IS NOT NULL AND NEW.stored_at IS NOT NULL)
           WHEN 'uncertain' THEN NEW.state IN ('stored', 'cleanup')
           WHEN 'stored'    THEN NEW.state IN ('ready', 'cleanup')
           WHEN 'ready'     THEN
               NEW.state = 'cleanup'
               AND NOT EXISTS (SELECT FROM attachment WHERE attachment.upload_id = OLD.id)
           WHEN 'cleanup'   THEN NEW.state IN ('cleaned', 'retained')
           WHEN 'retained'  THEN NEW.state = 'cleanup'
           ELSE false
           END) THEN
        RAISE EXCEPTION 'upload % cannot go from % to %',
                OLD.id, OLD.state, coalesce(NEW.state, 'NULL')
            USING ERRCODE = 'integrity_constraint_violation',
                  HINT = CASE OLD.state
                         WHEN 'writing' THEN
                             'Call mark_stored or mark_uncertain; cancel_upload is remembered until then.'
                         WHEN 'ready' THEN 'Remove its attachment: remove_attachment.'
                         WHEN 'stored' THEN 'Call publish_upload or cancel_upload.'
                         WHEN 'uncertain' THEN 'Call mark_stored, or let upload_cleanup find out.'
                         ELSE 'There is no way back from cleanup: a retry is a new upload with a '
                              'new key, begin_upload(prefix).'
                         END;
    END IF;

    IF NEW.state = 'uncertain' THEN
        NEW.uncertain_since := coalesce(NEW.uncertain_since, clock_timestamp());
        NEW.next_attempt_at := coalesce(NEW.next_attempt_at, NEW.uncertain_since);
    ELSIF NEW.state = 'cleanup' THEN
        NEW.collectable_at := coalesce(NEW.collectable_at, clock_timestamp());
        -- What remains of the time when it was uncertain does not hold it up.
        IF OLD.state = 'uncertain'
           AND NEW.next_attempt_at IS NOT DISTINCT FROM OLD.next_attempt_at THEN
            NEW.next_attempt_at := NEW.collectable_at;
        END IF;
        NEW.next_attempt_at := coalesce(NEW.next_attempt_at, NEW.collectable_at);
    ELSIF NEW.state = 'cleaned' THEN
        NEW.cleaned_at := coalesce(NEW.cleaned_at, clock_timestamp());
    END IF;
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION check_upload_transition() IS
    'Trigger: refuses transitions of upload that are not foreseen; no way back from cleanup.';

CREATE TRIGGER upload_moves
    BEFORE UPDATE ON upload
    FOR EACH ROW EXECUTE FUNCTION check_upload_transition();

-- A row that still names an object is not removed: the object would be nobody's.
CREATE FUNCTION keep_upload() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF OLD.state = 'cleaned' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'upload % is %, and only a cleaned one can be removed', OLD.id, OLD.state
        USING ERRCODE = 'integrity_constraint_violation',
              HINT = 'Call cancel_upload or remove_attachment, and let upload_cleanup end it.';
END
$$;

COMMENT ON FUNCTION keep_upload() IS 'Trigger: only rows in state cleaned can be deleted.';

CREATE TRIGGER upload_is_kept
    BEFORE DELETE ON upload
    FOR EACH ROW EXECUTE FUNCTION keep_upload();

-- An attachment belongs to an upload that is ready, and has its key. The upload is locked: whoever
-- is just removing the attachment before this one has then ended, and the state seen is the last.
CREATE FUNCTION check_attachment() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
DECLARE
    found_state text;
    found_key   text;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF (NEW.upload_id, NEW.storage_key) IS DISTINCT FROM (OLD.upload_id, OLD.storage_key) THEN
            RAISE EXCEPTION 'attachment % cannot change to another upload', OLD.id
                USING ERRCODE = 'integrity_constraint_violation',
                      HINT = 'Publish the new upload, and remove this attachment.';
        END IF;
        RETURN NEW;
    END IF;

    SELECT state, storage_key INTO found_state, found_key
      FROM upload
     WHERE id = NEW.upload_id
       FOR SHARE;
    NEW.storage_key := coalesce(NEW.storage_key, found_key);
    -- An upload that is not there is refused by the foreign key.
    IF found_state IS NOT NULL
       AND (found_state <> 'ready' OR NEW.storage_key <> found_key) THEN
        RAISE EXCEPTION 'upload % is % with the key %, and cannot be attached as %',
                NEW.upload_id, found_state, found_key, NEW.storage_key
            USING ERRCODE = 'integrity_constraint_violation',
                  HINT = 'Call publish_upload: it claims a stored upload and inserts its '
                         'attachment.';
    END IF;
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION check_attachment() IS
    'Trigger: an attachment has the key of an upload that is ready, and keeps it.';

CREATE TRIGGER attachment_of_a_ready_upload
    BEFORE INSERT OR UPDATE ON attachment
    FOR EACH ROW EXECUTE FUNCTION check_attachment();

-- However an attachment goes, also by a cascade from a table of the application: its upload goes
-- to cleanup in the same transaction, so that its key is never forgotten.
CREATE FUNCTION release_upload() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
BEGIN
    UPDATE upload SET state = 'cleanup' WHERE id = OLD.upload_id AND state = 'ready';
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION release_upload() IS
    'Trigger: moves the upload of an attachment that was deleted to cleanup.';

CREATE TRIGGER attachment_releases_its_upload
    AFTER DELETE ON attachment
    FOR EACH ROW EXECUTE FUNCTION release_upload();

-- Ready means attached. Asked at the commit, because the attachment comes after the claim.
CREATE FUNCTION demand_attachment() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
BEGIN
    IF EXISTS (SELECT FROM upload WHERE id = NEW.id AND state = 'ready')
       AND NOT EXISTS (SELECT FROM attachment WHERE upload_id = NEW.id) THEN
        RAISE EXCEPTION 'upload % became ready without an attachment', NEW.id
            USING ERRCODE = 'integrity_constraint_violation',
                  HINT = 'Call publish_upload: it does both.';
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION demand_attachment() IS
    'Trigger: whoever makes an upload ready attaches it in the same transaction.';

CREATE CONSTRAINT TRIGGER upload_ready_is_attached
    AFTER UPDATE OF state ON upload
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    WHEN (NEW.state = 'ready' AND OLD.state <> 'ready')
    EXECUTE FUNCTION demand_attachment();

CREATE TRIGGER upload_refuses_key_in_deletion
    AFTER INSERT ON upload
    FOR EACH ROW EXECUTE FUNCTION refuse_key_in_deletion();

CREATE TRIGGER upload_refuses_changed_key_in_deletion
    AFTER UPDATE ON upload
    FOR EACH ROW
    WHEN (OLD.storage_key IS DISTINCT FROM NEW.storage_key)
    EXECUTE FUNCTION refuse_key_in_deletion();

CREATE TRIGGER attachment_refuses_key_in_deletion
    AFTER INSERT ON attachment
    FOR EACH ROW EXECUTE FUNCTION refuse_key_in_deletion();

CREATE TRIGGER attachment_refuses_changed_key_in_deletion
    AFTER UPDATE ON attachment
    FOR EACH ROW
    WHEN (OLD.storage_key IS DISTINCT FROM NEW.storage_key)
    EXECUTE FUNCTION refuse_key_in_deletion();

-- Also for rows that logical replication or a restore brings.
ALTER TABLE upload ENABLE ALWAYS TRIGGER upload_refuses_key_in_deletion;
ALTER TABLE upload ENABLE ALWAYS TRIGGER upload_refuses_changed_key_in_deletion;
ALTER TABLE attachment ENABLE ALWAYS TRIGGER attachment_refuses_key_in_deletion;
ALTER TABLE attachment ENABLE ALWAYS TRIGGER attachment_refuses_changed_key_in_deletion;

-- What an application calls, in any language ----------------------------------------------------
--
-- Each may be repeated after a lost answer; begin_upload then makes another upload, and the first
-- one is cleaned up. Under REPEATABLE READ and SERIALIZABLE the loser of a race gets a serialization
-- failure instead of an answer: roll back and call again.

-- The durable record of an upload. Commit it BEFORE anything is sent to the storage.
--
-- prefix: a folder in an owned prefix, ending in "/". suffix: what follows the id, such as ".pdf"
-- or "/report.pdf". Returns the row's id and the key to store the object under.
CREATE FUNCTION begin_upload(prefix text, suffix text DEFAULT '', OUT id uuid, OUT key text)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF prefix IS NULL
       OR prefix !~ '^([^/]+/)+$' OR prefix ~ '(^|/)[.]{1,2}/|[\x01-\x1f\x7f]' THEN
        RAISE EXCEPTION 'the prefix % is no folder', coalesce(quote_literal(prefix), 'NULL')
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'It ends in "/" and does not begin with one, as in "files/"; no segment is '
                         'empty, "." or ".."; no control characters.';
    END IF;
    IF suffix IS NULL
       OR suffix ~ '//|/$|[\x01-\x1f\x7f]' OR suffix ~ '/[.]{1,2}(/|$)' THEN
        RAISE EXCEPTION 'the suffix % cannot end a key', coalesce(quote_literal(suffix), 'NULL')
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'It may be empty, ".pdf" or "/report.pdf"; it does not end in "/"; no '
                         'segment is empty, "." or ".."; no control characters.';
    END IF;
    IF octet_length(prefix) + 36 + octet_length(suffix) > 1024 THEN
        RAISE EXCEPTION 'prefix and suffix have % bytes, and a key has room for 988 besides its id',
                octet_length(prefix) + octet_length(suffix)
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Keep the name that users see in a table of the application.';
    END IF;

    INSERT INTO upload AS begun (key_prefix, key_suffix)
    VALUES (prefix, suffix)
    RETURNING begun.id, begun.storage_key INTO id, key;
END
$$;

COMMENT ON FUNCTION begin_upload(text, text) IS
    'Begins an upload: returns its id and the key to store under. Commit it before writing.';

-- The provider's id of a multipart upload; commit it before the first part is sent.
--
-- Returns true when the writer may go on. False: it is cancelled, or the row is not written to any
-- more; the id is noted all the same, so that the parts are found. NULL: no such upload. Another
-- id than the one already noted is refused.
CREATE FUNCTION record_upload_id(upload_row uuid, provider_id text) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    may_go_on boolean;
BEGIN
    IF coalesce(provider_id, '') = '' THEN
        RAISE EXCEPTION 'the provider''s id of a multipart upload is missing'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Pass the UploadId that CreateMultipartUpload returned; for a single PUT '
                         'do not call record_upload_id.';
    END IF;

    -- Another id than the one that is noted is refused by the trigger.
    UPDATE upload
       SET upload_id   = provider_id,
           activity_at = clock_timestamp()
     WHERE id = upload_row AND state <> 'cleaned'
    RETURNING state = 'writing' AND cancel_requested_at IS NULL INTO may_go_on;

    IF FOUND THEN
        RETURN may_go_on;
    END IF;
    SELECT false INTO may_go_on FROM upload WHERE id = upload_row;
    RETURN may_go_on;
END
$$;

COMMENT ON FUNCTION record_upload_id(uuid, text) IS
    'Notes the provider''s multipart id; true when the writer may go on.';

-- A sign of life of a writer that takes long: call it after each part.
--
-- Returns true when the writer may go on. False: it is cancelled, or the row is not written to any
-- more. NULL: no such upload.
CREATE FUNCTION touch_upload(upload_row uuid) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    may_go_on boolean;
BEGIN
    UPDATE upload
       SET activity_at = clock_timestamp()
     WHERE id = upload_row AND state IN ('writing', 'uncertain')
    RETURNING state = 'writing' AND cancel_requested_at IS NULL INTO may_go_on;

    IF FOUND THEN
        RETURN may_go_on;
    END IF;
    SELECT false INTO may_go_on FROM upload WHERE id = upload_row;
    RETURN may_go_on;
END
$$;

COMMENT ON FUNCTION touch_upload(uuid) IS
    'Notes that the writer lives; true when it may go on.';

-- The storage has confirmed the object: the writer has ended.
--
-- Returns the state it came to: stored, or cleanup when a cancel was remembered. When the row is
-- past that already, its state is returned and nothing is changed: the first record stands. NULL:
-- no such upload. The quotes around an ETag are taken off; an empty ETag or version is none.
CREATE FUNCTION mark_stored(
    upload_row     uuid,
    object_etag    text DEFAULT NULL,
    object_size    bigint DEFAULT NULL,
    object_version text DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    came_to text;
BEGIN
    UPDATE upload
       SET state       = CASE WHEN cancel_requested_at IS NULL THEN 'stored' ELSE 'cleanup' END,
           etag        = nullif(btrim(object_etag, '"'), ''),
           size_bytes  = object_size,
           version_id  = nullif(object_version, ''),
           stored_at   = clock_timestamp(),
           activity_at = clock_timestamp()
     WHERE id = upload_row AND state IN ('writing', 'uncertain')
    RETURNING state INTO came_to;

    IF NOT FOUND THEN
        SELECT state INTO came_to FROM upload WHERE id = upload_row;
    END IF;
    RETURN came_to;
END
$$;

COMMENT ON FUNCTION mark_stored(uuid, text, bigint, text) IS
    'The object is there; returns stored, or cleanup when the upload was cancelled meanwhile.';

-- The writer has ended and does not know whether the object is there: a timeout, an answer that
-- was lost, parts left behind. upload_cleanup asks the storage and resolves it.
--
-- Returns the state after the call; NULL: no such upload. A row that is past writing stays as it
-- is, and the first reason stands.
CREATE FUNCTION mark_uncertain(upload_row uuid, reason text) RETURNS text
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    came_to text;
BEGIN
    UPDATE upload
       SET state            = 'uncertain',
           uncertain_since  = clock_timestamp(),
           uncertain_reason = left(coalesce(nullif(reason, ''), 'no reason given'), 2000),
           activity_at      = clock_timestamp()
     WHERE id = upload_row AND state = 'writing'
    RETURNING state INTO came_to;

    IF NOT FOUND THEN
        SELECT state INTO came_to FROM upload WHERE id = upload_row;
    END IF;
    RETURN came_to;
END
$$;

COMMENT ON FUNCTION mark_uncertain(uuid, text) IS
    'Nobody knows whether the object is there; returns the state after the call.';

-- Makes a stored upload visible: claims it and inserts its attachment, in one transaction.
--
-- Returns the attachment's id; NULL when there is nothing to publish: not stored, cancelled, no
-- such upload, or published for another subject. Called again for the same subject it returns the
-- same attachment.
CREATE FUNCTION publish_upload(upload_row uuid, belongs_to text) RETURNS uuid
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    claimed_key   text;
    attachment_id uuid;
BEGIN
    IF coalesce(belongs_to, '') = '' THEN
        RAISE EXCEPTION 'what the upload % belongs to is missing', upload_row
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Pass the application''s own name of it, such as "message 17".';
    END IF;

    UPDATE upload
       SET state = 'ready'
     WHERE id = upload_row AND state = 'stored'
    RETURNING storage_key INTO claimed_key;

    IF FOUND THEN
        INSERT INTO attachment (upload_id, storage_key, subject)
        VALUES (upload_row, claimed_key, belongs_to)
        RETURNING id INTO attachment_id;
    ELSE
        SELECT id INTO attachment_id
          FROM attachment
         WHERE upload_id = upload_row AND subject = belongs_to;
    END IF;
    RETURN attachment_id;
END
$$;

COMMENT ON FUNCTION publish_upload(uuid, text) IS
    'Publishes a stored upload; returns its attachment, NULL when there is nothing to publish.';

-- Cancels an upload that is not published. While it is still written, and while it is uncertain
-- whether the object is there, the wish is remembered and honoured afterwards.
--
-- Returns the state after the call: cleanup (the cancel won), writing or uncertain (remembered),
-- ready (publish won: remove the attachment instead). NULL: no such upload.
CREATE FUNCTION cancel_upload(upload_row uuid) RETURNS text
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    came_to text;
BEGIN
    UPDATE upload
       SET state               = CASE state WHEN 'stored' THEN 'cleanup' ELSE state END,
           cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp())
     WHERE id = upload_row AND state IN ('writing', 'uncertain', 'stored')
    RETURNING state INTO came_to;

    IF NOT FOUND THEN
        SELECT state INTO came_to FROM upload WHERE id = upload_row;
    END IF;
    RETURN came_to;
END
$$;

COMMENT ON FUNCTION cancel_upload(uuid) IS
    'Cancels an upload that is not published; returns the state after the call.';

-- Takes an attachment away, and moves its upload to cleanup, in one transaction.
--
-- Returns true when this call removed it; false when it was not there.
CREATE FUNCTION remove_attachment(attachment_row uuid) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    -- The trigger on attachment moves the upload: it does so for every DELETE.
    DELETE FROM attachment WHERE id = attachment_row;
    RETURN FOUND;
END
$$;

COMMENT ON FUNCTION remove_attachment(uuid) IS
    'Removes an attachment and moves its upload to cleanup; true when this call removed it.';

-- TRUNCATE asks no trigger of a row, and would forget which objects are to be removed.
CREATE FUNCTION refuse_truncate_of_uploads() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    RAISE EXCEPTION '% cannot be truncated: its rows know which objects are there', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'Remove attachments and cancel uploads; upload_cleanup takes their objects.';
END
$$;

COMMENT ON FUNCTION refuse_truncate_of_uploads() IS
    'Trigger: refuses TRUNCATE, which would forget which objects are to be removed.';

CREATE TRIGGER upload_never_truncated
    BEFORE TRUNCATE ON upload
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate_of_uploads();

CREATE TRIGGER attachment_never_truncated
    BEFORE TRUNCATE ON attachment
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate_of_uploads();
