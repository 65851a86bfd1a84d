-- Functions that are called by statements of others find only what they were made with. This one runs
-- as its owner, and had calls that a function of somebody else in this schema could fit better (see
-- the migration of the append). The others that run as their owner compare columns with values of
-- the very same type, and call nothing that takes an argument: what PostgreSQL has itself fits those
-- exactly, and comes first.

CREATE OR REPLACE FUNCTION refuse_key_in_deletion() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
DECLARE
    referred text;
    refused  boolean;
BEGIN
    IF TG_NARGS OPERATOR(pg_catalog.=) 0 THEN
        referred := NEW.storage_key;
    ELSE
        referred := pg_catalog.to_jsonb(NEW) OPERATOR(pg_catalog.->>) TG_ARGV[0];
    END IF;
    SELECT pg_catalog.bool_or(candidate.state OPERATOR(pg_catalog.=) 'deleting')
      INTO refused
      FROM (SELECT state
              FROM orphan_candidate
             WHERE key OPERATOR(pg_catalog.=) pg_catalog.convert_to(referred, 'UTF8')
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

-- These run with the rights of whoever writes, and looked along that session's own search path.
ALTER FUNCTION refuse_truncate() SET search_path FROM CURRENT;
ALTER FUNCTION refuse_audit_change() SET search_path FROM CURRENT;
ALTER FUNCTION make_upload_id() SET search_path FROM CURRENT;
ALTER FUNCTION keep_upload() SET search_path FROM CURRENT;
