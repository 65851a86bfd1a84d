-- Seals, checkpoints, holds and the bookkeeping of pins. What these tables say is not evidence by
-- itself: the verifier believes signatures, the rows, and the copies outside the database.

-- 1 until a restored database is acknowledged; then the chain goes on under the next number.
ALTER TABLE audit_chain
    ADD COLUMN incarnation integer NOT NULL DEFAULT 1,
    ADD CONSTRAINT audit_chain_incarnation_positive CHECK (incarnation >= 1);

CREATE TABLE audit_seal (
    chain_id    text COLLATE "C" NOT NULL,
    seal_no     bigint NOT NULL,
    incarnation integer NOT NULL,
    size        bigint NOT NULL,
    head_hash   bytea NOT NULL,
    root        bytea NOT NULL,
    -- The perfect subtrees of the Merkle tree, largest first: the next seal goes on from here.
    frontier    bytea NOT NULL,
    sealed_at   timestamptz NOT NULL,
    prev_seal   bytea NOT NULL,
    system_id   text NOT NULL,
    timeline    text NOT NULL,
    note        text NOT NULL,

    PRIMARY KEY (chain_id, seal_no),
    CONSTRAINT audit_seal_counts CHECK (seal_no >= 1 AND incarnation >= 1 AND size >= 0),
    CONSTRAINT audit_seal_hashes_are_sha256
        CHECK (octet_length(head_hash) = 32 AND octet_length(root) = 32
               AND octet_length(prev_seal) = 32)
);

COMMENT ON TABLE audit_seal IS
    'Where a chain had reached: size, head, Merkle root, as a signed note.';

CREATE TABLE audit_checkpoint (
    chain_id        text COLLATE "C" NOT NULL,
    checkpoint_no   bigint NOT NULL,
    incarnation     integer NOT NULL,
    from_seq        bigint NOT NULL,
    to_seq          bigint NOT NULL,
    events          bigint NOT NULL,
    first_at        timestamptz NOT NULL,
    last_at         timestamptz NOT NULL,
    prev_hash       bytea NOT NULL,
    last_hash       bytea NOT NULL,
    frontier        bytea NOT NULL,
    -- The seal that covers the range, and the newest one when it was cut.
    seal_no         bigint NOT NULL,
    newest_seal_no  bigint NOT NULL,
    cutoff          timestamptz NOT NULL,
    retention       bigint NOT NULL,  -- seconds
    actor           text NOT NULL,
    run_id          text NOT NULL,
    archive         text,
    prev_checkpoint bytea NOT NULL,
    note            text NOT NULL,
    event_seq       bigint NOT NULL,

    PRIMARY KEY (chain_id, checkpoint_no),
    CONSTRAINT audit_checkpoint_counts
        CHECK (checkpoint_no >= 1 AND from_seq >= 1 AND to_seq >= from_seq AND events >= 0),
    CONSTRAINT audit_checkpoint_hashes_are_sha256
        CHECK (octet_length(prev_hash) = 32 AND octet_length(last_hash) = 32
               AND octet_length(prev_checkpoint) = 32)
);

COMMENT ON TABLE audit_checkpoint IS 'The receipt of each trimmed batch, as a signed note.';

CREATE INDEX audit_checkpoint_of_range ON audit_checkpoint (chain_id, to_seq);

CREATE TABLE audit_restore (
    chain_id       text COLLATE "C" NOT NULL,
    -- The incarnation that begins with this restore.
    incarnation    integer NOT NULL,
    survived_seal  bigint NOT NULL,
    survived_size  bigint NOT NULL,
    survived_head  bytea NOT NULL,
    lost_seal      bigint NOT NULL,
    lost_size      bigint NOT NULL,
    lost_note      bytea NOT NULL,
    actor          text NOT NULL,
    reason         text NOT NULL,
    restored_at    timestamptz NOT NULL,
    note           text NOT NULL,

    PRIMARY KEY (chain_id, incarnation),
    CONSTRAINT audit_restore_incarnation_follows CHECK (incarnation >= 2),
    CONSTRAINT audit_restore_hashes_are_sha256
        CHECK (octet_length(survived_head) = 32 AND octet_length(lost_note) = 32)
);

COMMENT ON TABLE audit_restore IS
    'Restored databases that an operator acknowledged, and what was lost, as signed notes.';

CREATE TABLE audit_hold (
    hold_id          text COLLATE "C" PRIMARY KEY,
    chain_id         text COLLATE "C" NOT NULL REFERENCES audit_chain,
    -- Nothing from this event on is trimmed while the hold stands.
    from_seq         bigint NOT NULL,
    file_id          text,
    reason           text NOT NULL,
    set_at           timestamptz NOT NULL,
    set_by           text NOT NULL,
    set_event_seq    bigint NOT NULL,
    released_at      timestamptz,
    released_by      text,
    release_event_seq bigint,

    CONSTRAINT audit_hold_from_an_event CHECK (from_seq >= 1),
    CONSTRAINT audit_hold_released_as_a_whole
        CHECK ((released_at IS NULL) = (released_by IS NULL)
               AND (released_at IS NULL) = (release_event_seq IS NULL))
);

COMMENT ON TABLE audit_hold IS
    'Legal holds. Set and released by chain events, which count when the two disagree.';

CREATE INDEX audit_hold_active ON audit_hold (chain_id, from_seq) WHERE released_at IS NULL;

CREATE TABLE audit_pin (
    object_key   text COLLATE "C" PRIMARY KEY,
    chain_id     text COLLATE "C" NOT NULL,
    version_id   text,
    sha256       bytea NOT NULL,
    retain_until timestamptz,
    pinned_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE audit_pin IS
    'Bookkeeping of what was copied outside. Never trusted: the verifier lists the copies.';

-- The trim may remove a prefix. It names chain and last number in a setting that ends with its
-- transaction, and the commit is refused without the checkpoint of that range. A speed bump
-- against accidents: whoever may DELETE here can also make the setting and the row.
CREATE OR REPLACE FUNCTION refuse_audit_change() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    allowed text := current_setting('filejobs.audit_trim', true);
BEGIN
    -- Two tests, not one: OLD has these columns only in a DELETE on this table.
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME = 'audit_event' AND allowed <> '' THEN
        IF OLD.seq <= split_part(allowed, ' ', 1)::bigint
           AND OLD.chain_id = substr(allowed, strpos(allowed, ' ') + 1) THEN
            RETURN OLD;
        END IF;
    END IF;

    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'Rows of the audit log are added by its own functions and never changed.';
END
$$;

CREATE FUNCTION demand_audit_checkpoint() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM audit_checkpoint
                    WHERE chain_id = OLD.chain_id AND to_seq = OLD.seq) THEN
        RAISE EXCEPTION 'chain % was trimmed up to % without a checkpoint', OLD.chain_id, OLD.seq
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER audit_event_trimmed_with_checkpoint
    AFTER DELETE ON audit_event
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    WHEN (OLD.seq::text = split_part(current_setting('filejobs.audit_trim', true), ' ', 1))
    EXECUTE FUNCTION demand_audit_checkpoint();

CREATE TRIGGER audit_seal_never_changed
    BEFORE UPDATE OR DELETE ON audit_seal
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_seal_never_truncated
    BEFORE TRUNCATE ON audit_seal
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_checkpoint_never_changed
    BEFORE UPDATE OR DELETE ON audit_checkpoint
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_checkpoint_never_truncated
    BEFORE TRUNCATE ON audit_checkpoint
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_restore_never_changed
    BEFORE UPDATE OR DELETE ON audit_restore
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_restore_never_truncated
    BEFORE TRUNCATE ON audit_restore
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_hold_never_removed
    BEFORE DELETE ON audit_hold
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_hold_never_truncated
    BEFORE TRUNCATE ON audit_hold
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();

-- What is asked of the log: the events of a file, those that name a key, those of a run's
-- deletions, and the log's own. The conditions look at the text, because reading a body as JSON for
-- each index would double the price of an append; they let some rows too many in. Names are cut to
-- 200 characters, because an index entry has a largest size, and an append must not fail on a long
-- name.
CREATE INDEX audit_event_of_file
    ON audit_event (left(body::jsonb ->> 'file_id', 200))
    WHERE body LIKE '%"file_id"%';
CREATE INDEX audit_event_of_key
    ON audit_event USING gin ((body::jsonb -> 'keys') jsonb_path_ops)
    WHERE body LIKE '%"keys"%';
CREATE INDEX audit_event_of_run
    ON audit_event (left(body::jsonb ->> 'run_id', 200), chain_id, seq)
    WHERE body LIKE '%"objects.%';
CREATE INDEX audit_event_of_the_log
    ON audit_event (chain_id, seq)
    WHERE body LIKE '%"audit.%';
