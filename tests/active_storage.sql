-- The tables that Rails makes. Only the last index is new.
CREATE TABLE active_storage_blobs (
    id           bigserial PRIMARY KEY,
    key          varchar NOT NULL UNIQUE,
    filename     varchar NOT NULL,
    content_type varchar,
    metadata     text,
    service_name varchar NOT NULL,
    byte_size    bigint NOT NULL,
    checksum     varchar,
    created_at   timestamp(6) NOT NULL
);
CREATE TABLE active_storage_attachments (
    id          bigserial PRIMARY KEY,
    name        varchar NOT NULL,
    record_type varchar NOT NULL,
    record_id   bigint NOT NULL,
    blob_id     bigint NOT NULL REFERENCES active_storage_blobs (id),
    created_at  timestamp(6) NOT NULL
);
CREATE TABLE active_storage_variant_records (
    id               bigserial PRIMARY KEY,
    blob_id          bigint NOT NULL REFERENCES active_storage_blobs (id),
    variation_digest varchar NOT NULL,
    UNIQUE (blob_id, variation_digest)
);
CREATE INDEX index_active_storage_attachments_on_blob_id ON active_storage_attachments (blob_id);

CREATE INDEX active_storage_blobs_by_age
    ON active_storage_blobs ((created_at AT TIME ZONE 'UTC'), id)
    WHERE service_name = 'amazon';
