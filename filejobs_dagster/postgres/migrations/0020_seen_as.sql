-- Of an orphan of which nobody could tell whether it is the object that was listed: the version that
-- a look has found there, and since when it is known to be there. The next pass that lists the
-- object unchanged compares by it, since a server that dates an object anew does so for good.
ALTER TABLE orphan_candidate
    ADD COLUMN seen_as    text,
    ADD COLUMN seen_as_at timestamptz,
    ADD CONSTRAINT orphan_candidate_seen_as_with_time
        CHECK ((seen_as IS NULL) = (seen_as_at IS NULL));
