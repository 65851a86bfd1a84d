-- The timeline on which this database adopted the bucket, or counted its last live run in it. A
-- promotion begins a new one. NULL until the first live run after this migration.
ALTER TABLE bucket_adoption
    ADD COLUMN timeline bigint,
    ADD CONSTRAINT bucket_adoption_timeline_positive CHECK (timeline > 0);
