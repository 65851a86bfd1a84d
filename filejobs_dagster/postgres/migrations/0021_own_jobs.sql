-- Jobs of the operator's own stand in the same record. Theirs is every name with this prefix, so that
-- none can be that of a job of the registry, and the record of one that left the settings stays valid.
-- NOT VALID, then VALIDATE: rows are written while the old ones are looked at, and each is as before.
ALTER TABLE job_run DROP CONSTRAINT job_run_job_known;
ALTER TABLE job_run
    ADD CONSTRAINT job_run_job_known CHECK (job IN (
        'upload_reservations', 'storage_orphans', 'upload_cleanup', 'multipart_uploads',
        'deleted_files', 'table_retention', 'audit_trim', 'audit_seal', 'audit_verify',
        'run_history') OR job ~ '^own_[a-z0-9][a-z0-9_]{0,58}$') NOT VALID;
ALTER TABLE job_run VALIDATE CONSTRAINT job_run_job_known;

COMMENT ON COLUMN job_run.run_id IS
    'The Dagster run; of a job that another process reports, the name that its report has.';
