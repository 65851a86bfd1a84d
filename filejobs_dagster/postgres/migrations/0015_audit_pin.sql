-- What was pinned once is remembered for good, so that a pin that is gone is told apart from one
-- that was not put yet.
CREATE TRIGGER audit_pin_never_changed
    BEFORE UPDATE OR DELETE ON audit_pin
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_pin_never_truncated
    BEFORE TRUNCATE ON audit_pin
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();

COMMENT ON TABLE audit_pin IS
    'What was copied outside, and where. A row here demands its copy; it never stands in for one.';

-- All pins of a chain are read together; the newest of an incarnation is found by its key.
CREATE INDEX audit_pin_of_chain ON audit_pin (chain_id, object_key);

-- What a restore names since: the newest pin that the database still agreed with, and every pin that
-- it lost. NULL in restores that an earlier version wrote down.
ALTER TABLE audit_restore
    ADD COLUMN matched_size bigint,
    ADD COLUMN matched_head bytea,
    ADD COLUMN lost_pins text,
    ADD CONSTRAINT audit_restore_matched_as_a_whole
        CHECK ((matched_size IS NULL) = (matched_head IS NULL)
               AND (matched_size IS NULL) = (lost_pins IS NULL)
               AND matched_size >= 0 AND octet_length(matched_head) = 32);

COMMENT ON COLUMN audit_restore.lost_pins IS
    'One line for each: number of the seal, size, head and SHA-256 of the note in base64.';
