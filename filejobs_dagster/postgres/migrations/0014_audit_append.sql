-- Appending needs no rights on the tables any more: the functions run as their owner, find nothing
-- but the project's own tables, and check what they are given. Two of them, because two kinds of
-- callers are believed differently: audit_append_many is the project's own, audit_record is for
-- applications. Nobody may call either without a GRANT.
--
-- PostgreSQL takes the function or operator whose arguments fit best, wherever on the search path it
-- stands: where somebody else may create in this schema, a function of his would be called with the
-- rights of the owner. So whatever is called in them is named with its schema. Only the project's own
-- tables are found by the search path.

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
    name_of_chain  bytea := pg_catalog.convert_to(chain, 'UTF8');
    start_of_chain bytea := pg_catalog.sha256(
        pg_catalog.convert_to(E'filejobs/audit/genesis\n', 'UTF8')
        OPERATOR(pg_catalog.||) name_of_chain);
    prefix         bytea := pg_catalog.convert_to(E'filejobs/audit/event\n', 'UTF8')
        OPERATOR(pg_catalog.||) pg_catalog.int2send(1::pg_catalog.int2)
        OPERATOR(pg_catalog.||) pg_catalog.sha256(name_of_chain);
    written        text  := 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"';
    head           audit_chain%ROWTYPE;
    moment         timestamptz;
    body           text;
    hash_of_body   bytea;
    hash_of_event  bytea;
BEGIN
    IF coalesce(pg_catalog.cardinality(bodies), 0) OPERATOR(pg_catalog.=) 0 THEN
        RETURN;
    END IF;

    INSERT INTO audit_chain (chain_id, genesis, head_seq, head_hash, head_at)
    VALUES (chain, start_of_chain, 0, start_of_chain, pg_catalog.clock_timestamp())
    ON CONFLICT (chain_id) DO NOTHING;

    SELECT * INTO STRICT head
      FROM audit_chain WHERE chain_id OPERATOR(pg_catalog.=) chain FOR UPDATE;

    moment    := pg_catalog.clock_timestamp();
    first_seq := head.head_seq OPERATOR(pg_catalog.+) 1;
    IF moment OPERATOR(pg_catalog.<) (head.head_at OPERATOR(pg_catalog.-) interval '5 minutes') THEN
        bodies := pg_catalog.array_prepend(
            pg_catalog.format('{"from":"%s","kind":"audit.clock","to":"%s"}',
                              pg_catalog.to_char(head.head_at AT TIME ZONE 'UTC', written),
                              pg_catalog.to_char(moment AT TIME ZONE 'UTC', written)),
            bodies);
        first_seq := first_seq OPERATOR(pg_catalog.+) 1;
    ELSE
        moment := greatest(moment, head.head_at);
    END IF;

    FOREACH body IN ARRAY bodies LOOP
        IF body IS NULL THEN
            RAISE EXCEPTION 'an audit event is NULL' USING ERRCODE = 'null_value_not_allowed';
        END IF;
        PERFORM body::pg_catalog.jsonb;
        hash_of_body  := pg_catalog.sha256(pg_catalog.convert_to(body, 'UTF8'));
        head.head_seq := head.head_seq OPERATOR(pg_catalog.+) 1;
        hash_of_event := pg_catalog.sha256(
            prefix
            OPERATOR(pg_catalog.||) pg_catalog.int8send(head.head_seq)
            OPERATOR(pg_catalog.||) pg_catalog.timestamptz_send(moment)
            OPERATOR(pg_catalog.||) head.head_hash
            OPERATOR(pg_catalog.||) hash_of_body);

        INSERT INTO audit_event
            (chain_id, seq, recorded_at, body, body_hash, prev_hash, hash, alg)
        VALUES
            (chain, head.head_seq, moment, body, hash_of_body, head.head_hash, hash_of_event, 1);

        head.head_hash := hash_of_event;
    END LOOP;

    UPDATE audit_chain
       SET head_seq = head.head_seq, head_hash = head.head_hash, head_at = moment
     WHERE chain_id OPERATOR(pg_catalog.=) chain;

    last_seq := head.head_seq;
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION audit_append_many(text, text[]) IS
    'For the jobs'' own role: appends canonical JSON events; call it last in the transaction.';

-- Appends an application's events to a chain of its own; otherwise as audit_append_many.
--
-- The first append makes the chain and writes down whose it is. Refused are the chains of others; the
-- kinds of event by which the project says what it has done itself; a name that stands twice in an
-- event, of which two readers may see two different kinds; and a new chain whose name is too long for
-- the key of a pin, where it stands percent-encoded: such a chain could never be sealed.
CREATE FUNCTION audit_record(chain text, bodies text[])
RETURNS TABLE (first_seq bigint, last_seq bigint)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
DECLARE
    -- Inside a function that runs as its owner, current_user is the owner. This is who called, and
    -- nobody can SET ROLE to a role whose member he is not.
    caller      name := CASE WHEN pg_catalog.current_setting('role') OPERATOR(pg_catalog.=) 'none'
                             THEN session_user
                             ELSE pg_catalog.current_setting('role')::pg_catalog.name END;
    jobs_own    text := '^(audit|bucket|database|deleted_file|multipart|objects|rows|run'
                        '|run_history|storage_orphans|table_retention|upload|upload_reservation)[.]';
    beginning   bytea;
    quoted      integer;
    of_chain    text;
    body        text;
    event       jsonb;
    kind        text;
    named_twice boolean;
BEGIN
    IF chain IS NULL
       OR chain OPERATOR(pg_catalog.!~) '^[[:graph:]]{1,200}$'
       OR chain OPERATOR(pg_catalog.=) 'collectors' THEN
        RAISE EXCEPTION 'an application cannot append to the chain %', pg_catalog.quote_nullable(chain)
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Name a chain of your own: 1 to 200 characters without a space. The chain '
                         'collectors is the jobs'' own.';
    END IF;
    IF coalesce(pg_catalog.cardinality(bodies), 0) OPERATOR(pg_catalog.=) 0 THEN
        RETURN;
    END IF;

    FOREACH body IN ARRAY bodies LOOP
        event := body::pg_catalog.jsonb;
        IF coalesce(pg_catalog.jsonb_typeof(event), 'null') OPERATOR(pg_catalog.<>) 'object'
           OR coalesce(pg_catalog.jsonb_typeof(event OPERATOR(pg_catalog.->) 'kind'), 'null')
              OPERATOR(pg_catalog.<>) 'string' THEN
            RAISE EXCEPTION 'an audit event is a JSON object with a text "kind"'
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Such as {"file_id":"1","kind":"file.shared"}.';
        END IF;
        SELECT pg_catalog.count(*) OPERATOR(pg_catalog.>) pg_catalog.count(DISTINCT key)
          INTO named_twice
          FROM pg_catalog.json_object_keys(body::pg_catalog.json) AS key;
        IF named_twice THEN
            RAISE EXCEPTION 'an audit event has a name twice'
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Readers of JSON differ in which of the two they take.';
        END IF;
        kind := event OPERATOR(pg_catalog.->>) 'kind';
        IF kind OPERATOR(pg_catalog.~) jobs_own THEN
            RAISE EXCEPTION 'the kind % is the jobs'' own', pg_catalog.quote_literal(kind)
                USING ERRCODE = 'insufficient_privilege',
                      HINT = 'By it the jobs say what they did themselves. Choose a first word of '
                             'your own, such as app.';
        END IF;
    END LOOP;

    -- Each byte of what is none of these characters becomes three.
    quoted := pg_catalog.octet_length(pg_catalog.convert_to(chain, 'UTF8'))
        OPERATOR(pg_catalog.+) (2 OPERATOR(pg_catalog.*) pg_catalog.octet_length(
            pg_catalog.convert_to(
                pg_catalog.regexp_replace(chain, '[A-Za-z0-9_.~-]', '', 'g'), 'UTF8')));
    IF quoted OPERATOR(pg_catalog.>) 240
       AND NOT EXISTS (SELECT FROM audit_chain WHERE chain_id OPERATOR(pg_catalog.=) chain) THEN
        RAISE EXCEPTION 'the name of the chain % is too long for a pin', pg_catalog.quote_literal(chain)
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Percent-encoded it may have 240 characters: choose a shorter one, best of '
                         'letters and digits.';
    END IF;

    beginning := pg_catalog.sha256(
        pg_catalog.convert_to(E'filejobs/audit/genesis\n', 'UTF8')
        OPERATOR(pg_catalog.||) pg_catalog.convert_to(chain, 'UTF8'));
    INSERT INTO audit_chain (chain_id, genesis, head_seq, head_hash, head_at, writer)
    VALUES (chain, beginning, 0, beginning, pg_catalog.clock_timestamp(), caller)
    ON CONFLICT (chain_id) DO NOTHING;

    SELECT writer INTO of_chain FROM audit_chain WHERE chain_id OPERATOR(pg_catalog.=) chain;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles
                    WHERE rolname OPERATOR(pg_catalog.=) of_chain
                      AND pg_catalog.pg_has_role(caller, oid, 'MEMBER')) THEN
        RAISE EXCEPTION 'the chain % is not one of the role %', pg_catalog.quote_literal(chain), caller
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Append to a chain of your own. If this is yours from before, the owner of '
                         'the tables says so: UPDATE audit_chain SET writer = ''role'' WHERE '
                         'chain_id = ''chain''.';
    END IF;

    -- The only function of this name that takes exactly these two types.
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
