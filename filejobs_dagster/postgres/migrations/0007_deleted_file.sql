-- Soft-deleted files: how an application deletes and restores one, and in which order the collector
-- finds those whose restore window is over.

-- No infinity and no years that a client's calendar cannot hold, as for upload_expires_at: such a
-- row would make every reader of the oldest deleted file fail. "Not known" is NULL, and a deleted
-- file without its moment is never collected. A retain_until of infinity is a hold without end.
--
-- NOT VALID: rows that are there already are not read, so the lock is held for a moment only.
ALTER TABLE file
    ADD CONSTRAINT file_deleted_at_is_a_date
        CHECK (deleted_at >= '0001-01-03Z' AND deleted_at < '9999-01-01Z') NOT VALID,
    ADD CONSTRAINT file_retain_until_is_a_date
        CHECK (retain_until >= '0001-01-03Z'
               AND (retain_until < '9999-01-01Z' OR retain_until = 'infinity')) NOT VALID;

-- An index is built under a lock that keeps every writer out. On a table of more than a gigabyte
-- that takes too long: there the operator builds the three beforehand, with CONCURRENTLY, and they
-- are found here. The constraints are left to be validated, which locks out nobody.
DO $$
DECLARE
    wanted  record;
    index   regclass;
    missing text := '';
    small   boolean := pg_relation_size('file'::regclass) <= 1024 * 1024 * 1024;
BEGIN
    FOR wanted IN
        SELECT *
          FROM (VALUES
            -- The order in which deleted files are collected whose bytes nobody has to retain.
            ('file_deleted_due',
             'file (deleted_at, id) WHERE state = ''deleted'' AND deleted_at IS NOT NULL'
             ' AND retain_until IS NULL'),
            -- The same for retained ones. Those that are still retained, which may be most, lie
            -- behind all that are not, and cost nothing.
            ('file_deleted_retained_due',
             'file (retain_until, id, deleted_at) WHERE state = ''deleted'''
             ' AND deleted_at IS NOT NULL AND retain_until IS NOT NULL'),
            -- Deleted files that no collector will ever take: counted by each run.
            ('file_deleted_without_date',
             'file (id) WHERE state = ''deleted'' AND deleted_at IS NULL')
          ) AS index_of_file (name, definition)
    LOOP
        index := to_regclass(wanted.name);
        IF index IS NULL AND small THEN
            EXECUTE format('CREATE INDEX %I ON %s', wanted.name, wanted.definition);
        ELSIF index IS NULL THEN
            missing := missing || format('CREATE INDEX CONCURRENTLY %I ON %I.%s;' || chr(10),
                                         wanted.name, current_schema(), wanted.definition);
        ELSIF NOT (SELECT indisvalid FROM pg_index WHERE indexrelid = index) THEN
            missing := missing || format('REINDEX INDEX CONCURRENTLY %s;' || chr(10), index);
        END IF;
    END LOOP;

    IF missing <> '' THEN
        RAISE EXCEPTION 'the table file has more than 1 GB, and indexes of deleted files are missing'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'Building them in a migration would keep every writer out meanwhile.',
                  HINT = 'Run these first, each by itself and outside a transaction, then migrate '
                         'again:' || chr(10) || missing;
    END IF;

    IF small AND NOT EXISTS (
        SELECT FROM file
         WHERE NOT (deleted_at >= '0001-01-03Z' AND deleted_at < '9999-01-01Z')
            OR NOT (retain_until >= '0001-01-03Z'
                    AND (retain_until < '9999-01-01Z' OR retain_until = 'infinity')))
    THEN
        ALTER TABLE file VALIDATE CONSTRAINT file_deleted_at_is_a_date;
        ALTER TABLE file VALIDATE CONSTRAINT file_retain_until_is_a_date;
    END IF;
END
$$;

COMMENT ON COLUMN file.deleted_at IS
    'Since when the file is deleted: its restore window begins. NULL in state deleted: it is never '
    'collected, and counted by every run.';
COMMENT ON COLUMN file.retain_until IS
    'Before this moment the file is not collected, whatever its restore window. NULL: no retention.';

-- Deletes a file softly: from now on its restore window runs. Its bytes and its row stay.
--
-- Returns true when the file is deleted after the call, so that a client may repeat it; the first
-- call's moment stays. False when there is no such file, or when it is still pending: then nothing
-- can be restored later, and the reservation expires by itself.
CREATE FUNCTION delete_file(file_id uuid) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    UPDATE file
       SET state      = 'deleted',
           deleted_at = clock_timestamp()
     WHERE id = file_id
       AND state = 'ready';

    IF FOUND THEN
        RETURN true;
    END IF;

    RETURN EXISTS (SELECT FROM file WHERE id = file_id AND state = 'deleted');
END
$$;

COMMENT ON FUNCTION delete_file(uuid) IS
    'Makes a ready file deleted, to be restored or collected; true when it is deleted afterwards.';

-- Restores a deleted file. While its row is there this succeeds, also after its restore window: the
-- row decides, not the clock, because its bytes go only after the row.
--
-- Returns true when the file is ready after the call, so that a client may repeat it; false when
-- there is nothing to restore: the collector has won, or the file was never ready. While a collector
-- is claiming the row, this waits for it to end.
CREATE FUNCTION restore_file(file_id uuid) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    UPDATE file
       SET state      = 'ready',
           deleted_at = NULL
     WHERE id = file_id
       AND state = 'deleted';

    IF FOUND THEN
        RETURN true;
    END IF;

    RETURN EXISTS (SELECT FROM file WHERE id = file_id AND state = 'ready');
END
$$;

COMMENT ON FUNCTION restore_file(uuid) IS
    'Makes a deleted file ready again; true when it is ready afterwards, false when it was collected.';
