-- The file feature's own table. The application writes it; the collectors read it and, when a
-- claim says so, remove rows from it.

CREATE TABLE file (
    id                uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    state             text NOT NULL DEFAULT 'pending',
    -- Bytes are compared, never a collation: COLLATE "C" keeps equality and order those of UTF-8.
    storage_key       text COLLATE "C" NOT NULL,
    size_bytes        bigint,
    created_at        timestamptz NOT NULL DEFAULT now(),
    upload_expires_at timestamptz,
    completed_at      timestamptz,
    deleted_at        timestamptz,
    retain_until      timestamptz,

    CONSTRAINT file_state_known CHECK (state IN ('pending', 'ready', 'deleted')),
    CONSTRAINT file_storage_key_unique UNIQUE (storage_key),
    CONSTRAINT file_storage_key_is_a_key CHECK (octet_length(storage_key) BETWEEN 1 AND 1024),
    CONSTRAINT file_size_not_negative CHECK (size_bytes >= 0),
    -- No infinity and no years that a client's calendar cannot hold: such a row would make every
    -- reader of the oldest reservation fail. "Never" is NULL.
    CONSTRAINT file_upload_expires_at_is_a_date
        CHECK (upload_expires_at >= '0001-01-03Z' AND upload_expires_at < '9999-01-01Z')
);

COMMENT ON TABLE file IS
    'One row per file. A reservation is a row in state pending WITH upload_expires_at.';
COMMENT ON COLUMN file.storage_key IS
    'The exact key of the object: made by the server, never normalised, never used twice.';
COMMENT ON COLUMN file.upload_expires_at IS
    'From this moment on the reservation may be collected. NULL: it never expires by itself.';

-- The order in which reservations are collected; empty when nothing is reserved.
CREATE INDEX file_reservation_due
    ON file (upload_expires_at, id)
    WHERE state = 'pending' AND upload_expires_at IS NOT NULL;

-- Pending rows that no collector will ever take: counted by each run, so that they are seen.
CREATE INDEX file_pending_without_expiry
    ON file (created_at)
    WHERE state = 'pending' AND upload_expires_at IS NULL;

-- The upload has finished. While the row is pending this succeeds, also after the deadline: the
-- row decides, not the clock. With refuse_late => true a deadline that has passed refuses.
--
-- Returns true when the file is ready after the call, so that a client may repeat it; false when
-- there is nothing to complete: the reservation was collected, deleted, or (if asked) is too late.
CREATE FUNCTION complete_upload(
    file_id       uuid,
    refuse_late   boolean DEFAULT false,
    uploaded_size bigint  DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    UPDATE file
       SET state        = 'ready',
           completed_at = clock_timestamp(),
           size_bytes   = coalesce(uploaded_size, size_bytes)
     WHERE id = file_id
       AND state = 'pending'
       AND (NOT refuse_late
            OR upload_expires_at IS NULL
            OR upload_expires_at >= clock_timestamp());

    IF FOUND THEN
        RETURN true;
    END IF;

    RETURN EXISTS (SELECT FROM file WHERE id = file_id AND state = 'ready');
END
$$;

COMMENT ON FUNCTION complete_upload(uuid, boolean, bigint) IS
    'Makes a pending file ready; true when the file is ready after the call.';
