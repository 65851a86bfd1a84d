-- The audit log: one or more hash chains. This migration brings the append; seals, pins and the
-- trim come with theirs.

CREATE TABLE audit_chain (
    chain_id  text COLLATE "C" PRIMARY KEY,
    genesis   bytea NOT NULL,
    head_seq  bigint NOT NULL,
    head_hash bytea NOT NULL,
    head_at   timestamptz NOT NULL,

    CONSTRAINT audit_chain_hashes_are_sha256
        CHECK (octet_length(genesis) = 32 AND octet_length(head_hash) = 32)
) WITH (fillfactor = 50);  -- the head row is updated by every append: leave room for HOT updates

COMMENT ON TABLE audit_chain IS
    'One head row per chain. Appenders lock it, so commit order is sequence order.';

CREATE TABLE audit_event (
    chain_id    text COLLATE "C" NOT NULL REFERENCES audit_chain,
    seq         bigint NOT NULL,
    recorded_at timestamptz NOT NULL,
    -- The canonical text exactly as it was hashed; jsonb would not give it back.
    body        text NOT NULL,
    body_hash   bytea NOT NULL,
    prev_hash   bytea NOT NULL,
    hash        bytea NOT NULL,
    alg         smallint NOT NULL,

    PRIMARY KEY (chain_id, seq),
    CONSTRAINT audit_event_one_child_per_parent UNIQUE (chain_id, prev_hash),
    CONSTRAINT audit_event_hashes_are_sha256
        CHECK (octet_length(body_hash) = 32 AND octet_length(prev_hash) = 32
               AND octet_length(hash) = 32)
);

COMMENT ON TABLE audit_event IS
    'Append-only. The triggers are a speed bump against accidents, not the control.';

CREATE FUNCTION refuse_audit_change() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'audit_event is append-only: % refused', TG_OP
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'Events are added by audit_append_many and never changed.';
END
$$;

CREATE TRIGGER audit_event_never_changed
    BEFORE UPDATE OR DELETE ON audit_event
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();

CREATE TRIGGER audit_event_never_truncated
    BEFORE TRUNCATE ON audit_event
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();

-- Appends events to a chain, in order, and returns the first and the last sequence number.
--
-- bodies: canonical JSON texts (RFC 8785, made by the caller); what is not JSON is refused.
-- The head row stays locked until the caller commits, so this belongs at the end of the caller's
-- transaction. An empty array appends nothing and returns no row.
CREATE FUNCTION audit_append_many(chain text, bodies text[])
RETURNS TABLE (first_seq bigint, last_seq bigint)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    start_of_chain bytea := sha256(convert_to('filejobs/audit/genesis' || chr(10), 'UTF8')
                                   || convert_to(chain, 'UTF8'));
    prefix         bytea := convert_to('filejobs/audit/event' || chr(10), 'UTF8') || int2send(1::smallint)
                            || sha256(convert_to(chain, 'UTF8'));
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

    -- Clamped, not rejected: a clock that went backwards must not put time out of order.
    moment    := greatest(clock_timestamp(), head.head_at);
    first_seq := head.head_seq + 1;

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
    'Appends canonical JSON events to a chain; call it last in the transaction.';
