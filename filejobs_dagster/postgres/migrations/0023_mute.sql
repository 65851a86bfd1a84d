-- Who has silenced which alerts, until when and why. What is muted is not told; it stays open, it
-- is shown, and every exit code stays as it is. A mute ends by its time, or by `filejobs unmute`.
CREATE TABLE mute (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    installation text NOT NULL,
    -- NULL: whatever the kind concerns, jobs or none.
    job          text,
    -- NULL: every alert of the job.
    kind         text,
    since        timestamptz NOT NULL DEFAULT clock_timestamp(),
    until        timestamptz NOT NULL,
    muted_by     text NOT NULL,
    why          text NOT NULL,
    ended_at     timestamptz,
    ended_by     text,

    CONSTRAINT mute_says_what CHECK (job IS NOT NULL OR kind IS NOT NULL),
    CONSTRAINT mute_lasts CHECK (until > since),
    CONSTRAINT mute_ended_by_somebody CHECK ((ended_at IS NULL) = (ended_by IS NULL))
);

COMMENT ON TABLE mute IS
    'Which alerts are told to nobody, until when, by whom and why. Rows stay.';

CREATE INDEX mute_open ON mute (installation, until) WHERE ended_at IS NULL;
