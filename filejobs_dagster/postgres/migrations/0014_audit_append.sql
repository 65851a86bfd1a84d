-- Appending needs no rights on the tables any more: the functions run as their owner, find nothing
-- but the project's own tables, and check what they are given. Two of them, because two kinds of
-- callers are believed differently: audit_append_many is the project's own, audit_record is for
-- applications. Nobody may call either without a GRANT.

-- Who may append to the chain through audit_record: a role, and whoever is a member of it. NULL is a
-- chain of the project's own, or one that an earlier version made.
ALTER TABLE audit_chain ADD COLUMN writer text COLLATE "C";

COMMENT ON COLUMN audit_chain.writer IS
    'The role whose members may append with audit_record; NULL for a chain of the project.';

-- Appends events to a chain, in order, and returns the first and the last sequence number.
--
-- bodies: canonical JSON texts (RFC 8785, made by the caller); what is not JSON is refused.
-- The head row stays locked until the caller commits, so this belongs at the end of the caller's
-- transaction. An empty array appends nothing and returns no row.
--
-- A clock that went back a little is clamped, so that times stay in order. One that went back by
-- more was wrong before, or is now: an event of the chain says so, and time goes on from there. An
-- append under a clock that was a year ahead must not date everything behind it a year ahead.
CREATE OR REPLACE FUNCTION audit_append_many(chain text, bodies text[])
RETURNS TABLE (first_seq bigint, last_seq bigint)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
DECLARE
    start_of_chain bytea := sha256(convert_to('filejobs/audit/genesis' || chr(10), 'UTF8')
                                   || convert_to(chain, 'UTF8'));
    prefix         bytea := convert_to('filejobs/audit/event' || chr(10), 'UTF8') || int2send(1::smallint)
                            || sha256(convert_to(chain, 'UTF8'));
    written        text  := 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"';
    head           audit_chain%ROWTYPE;
    moment         timestamptz;
    body           text;
    hash_of_body   bytea;
    hash_of_event  bytea;
BEGIN
    IF coalesce(cardinality(bodies), 0) = 0 THEN
        RETURN;
    END IF;

    INSERT INTO audit_chain (chain_id, genesis, head_seq, head_hash, head_at)
    VALUES (chain, start_of_chain, 0, start_of_chain, clock_timestamp())
    ON CONFLICT (chain_id) DO NOTHING;

    SELECT * INTO STRICT head FROM audit_chain WHERE chain_id = chain FOR UPDATE;

    moment    := clock_timestamp();
    first_seq := head.head_seq + 1;
    IF moment < head.head_at - interval '5 minutes' THEN
        bodies := format('{"from":"%s","kind":"audit.clock","to":"%s"}',
                         to_char(head.head_at AT TIME ZONE 'UTC', written),
                         to_char(moment AT TIME ZONE 'UTC', written)) || bodies;
        first_seq := first_seq + 1;
    ELSE
        moment := greatest(moment, head.head_at);
    END IF;

    FOREACH body IN ARRAY bodies LOOP
        IF body IS NULL THEN
            RAISE EXCEPTION 'an audit event is NULL' USING ERRCODE = 'null_value_not_allowed';
        END IF;
        PERFORM body::jsonb;
        hash_of_body  := sha256(convert_to(body, 'UTF8'));
        head.head_seq := head.head_seq + 1;
        hash_of_event := sha256(prefix || int8send(head.head_seq) || timestamptz_send(moment)
                                || head.head_hash || hash_of_body);

        INSERT INTO audit_event
            (chain_id, seq, recorded_at, body, body_hash, prev_hash, hash, alg)
        VALUES
            (chain, head.head_seq, moment, body, hash_of_body, head.head_hash, hash_of_event, 1);

        head.head_hash := hash_of_event;
    END LOOP;

    UPDATE audit_chain
       SET head_seq = head.head_seq, head_hash = head.head_hash, head_at = moment
     WHERE chain_id = chain;

    last_seq := head.head_seq;
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION audit_append_many(text, text[]) IS
    'For the jobs'' own role: appends canonical JSON events; call it last in the transaction.';

-- Appends an application's events to a chain of its own; otherwise as audit_append_many.
--
-- The first append makes the chain and writes down whose it is. Refused are the chains of others,
-- and the kinds of event by which the project says what it has done itself.
CREATE FUNCTION audit_record(chain text, bodies text[])
RETURNS TABLE (first_seq bigint, last_seq bigint)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
DECLARE
    -- Inside a function that runs as its owner, current_user is the owner. This is who called, and
    -- nobody can SET ROLE to a role whose member he is not.
    caller    text := CASE current_setting('role') WHEN 'none' THEN session_user::text
                           ELSE current_setting('role') END;
    of_chain  text;
    body      text;
    event     jsonb;
BEGIN
    IF chain IS NULL OR chain !~ '^[[:graph:]]{1,200}$' OR chain = 'collectors' THEN
        RAISE EXCEPTION 'an application cannot append to the chain %', quote_nullable(chain)
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Name a chain of your own: 1 to 200 characters without a space. The chain '
                         'collectors is the jobs'' own.';
    END IF;
    IF coalesce(cardinality(bodies), 0) = 0 THEN
        RETURN;
    END IF;

    FOREACH body IN ARRAY bodies LOOP
        event := body::jsonb;
        IF coalesce(jsonb_typeof(event), 'null') <> 'object'
           OR coalesce(jsonb_typeof(event -> 'kind'), 'null') <> 'string' THEN
            RAISE EXCEPTION 'an audit event is a JSON object with a text "kind"'
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Such as {"file_id":"1","kind":"file.shared"}.';
        END IF;
        IF event ->> 'kind' ~ ('^(audit|run|objects|upload|upload_reservation|deleted_file|multipart'
                               '|table_retention|storage_orphans)[.]') THEN
            RAISE EXCEPTION 'the kind % is the jobs'' own', quote_literal(event ->> 'kind')
                USING ERRCODE = 'insufficient_privilege',
                      HINT = 'By it the jobs say what they did themselves. Choose a first word of '
                             'your own, such as app.';
        END IF;
    END LOOP;

    INSERT INTO audit_chain (chain_id, genesis, head_seq, head_hash, head_at, writer)
    SELECT chain, genesis, 0, genesis, clock_timestamp(), caller
      FROM (SELECT sha256(convert_to('filejobs/audit/genesis' || chr(10), 'UTF8')
                          || convert_to(chain, 'UTF8')) AS genesis) AS start
    ON CONFLICT (chain_id) DO NOTHING;

    SELECT writer INTO of_chain FROM audit_chain WHERE chain_id = chain;
    IF NOT EXISTS (SELECT FROM pg_roles
                    WHERE rolname = of_chain AND pg_has_role(caller, oid, 'MEMBER')) THEN
        RAISE EXCEPTION 'the chain % is not one of the role %', quote_literal(chain), caller
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Append to a chain of your own. If this is yours from before, the owner of '
                         'the tables says so: UPDATE audit_chain SET writer = ''role'' WHERE '
                         'chain_id = ''chain''.';
    END IF;

    RETURN QUERY SELECT * FROM audit_append_many(chain, bodies);
END
$$;

COMMENT ON FUNCTION audit_record(text, text[]) IS
    'For applications: appends events to a chain of their own; call it last in the transaction.';

REVOKE EXECUTE ON FUNCTION audit_append_many(text, text[]), audit_record(text, text[]) FROM PUBLIC;

-- Whoever could append until now had INSERT on the events, and goes on. What else these roles have
-- on the tables is the owner's to take back.
DO $$
DECLARE
    grantee text;
BEGIN
    FOR grantee IN
        SELECT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(acl.grantee)) END
          FROM pg_class, aclexplode(relacl) AS acl
         WHERE pg_class.oid = 'audit_event'::regclass AND privilege_type = 'INSERT'
    LOOP
        EXECUTE 'GRANT EXECUTE ON FUNCTION audit_append_many(text, text[]) TO ' || grantee;
    END LOOP;
END
$$;
