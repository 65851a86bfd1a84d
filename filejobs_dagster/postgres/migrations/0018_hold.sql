-- The brake: while a hold is open no live run of the job begins, and one at work stops before its
-- next batch. It is asked in the database, so that it works from anywhere and without a restart.
CREATE TABLE hold (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    installation text NOT NULL,
    -- NULL: every job.
    job          text,
    since        timestamptz NOT NULL DEFAULT clock_timestamp(),
    held_by      text NOT NULL,
    why          text NOT NULL,
    released_at  timestamptz,
    released_by  text,

    CONSTRAINT hold_released_by_somebody
        CHECK ((released_at IS NULL) = (released_by IS NULL))
);

COMMENT ON TABLE hold IS
    'Who has held which job, since when and why. `filejobs release` ends a hold; rows stay.';

CREATE UNIQUE INDEX hold_open ON hold (installation, coalesce(job, ''))
 WHERE released_at IS NULL;
