-- What the server of a bucket can do, beside what it makes of a deletion with a condition: found out
-- once by trying it on an object of ours, and used by every job. NULL where nobody has tried since
-- this migration: the next live run does.
ALTER TABLE bucket_adoption
    ADD COLUMN server jsonb,
    ADD CONSTRAINT bucket_adoption_server_with_result
        CHECK (server IS NULL OR (
            probed_at IS NOT NULL
            AND jsonb_typeof(server) = 'object'
            AND server ?& ARRAY['bulk', 'folds_slashes', 'seconds_apart', 'etags']));

COMMENT ON COLUMN bucket_adoption.server IS
    'bulk: it knows requests that delete many objects. folds_slashes: files//a and files/a are one object there. seconds_apart: by which listing and HEAD differ on the time of one object. etags: how they agree on its ETag.';
