-- Items that a job could not take for a reason of their own: an abort that storage denies, a row
-- whose claim a trigger refuses. They are tried again later and later, behind all others, so that
-- what cannot go never keeps the rest waiting. One table for every job.
CREATE TABLE setback (
    job        text COLLATE "C" NOT NULL,
    -- Of what the item is one: the bucket's name in the settings, or the source of the rows.
    place      text COLLATE "C" NOT NULL,
    -- What the job calls it, as bytes: keys may hold what text cannot.
    item       bytea NOT NULL,
    attempts   integer NOT NULL DEFAULT 1,
    first_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    not_before timestamptz NOT NULL,
    reason     text NOT NULL,

    PRIMARY KEY (job, place, item),
    CONSTRAINT setback_attempts_positive CHECK (attempts > 0)
);

COMMENT ON TABLE setback IS
    'Items that a job could not take, and when each is tried again. A row may be deleted by hand: '
    'then its item is tried at once.';

-- What nobody has met for long, to be forgotten.
CREATE INDEX setback_oldest ON setback (job, place, last_at);
