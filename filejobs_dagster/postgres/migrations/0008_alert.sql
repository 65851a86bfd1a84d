-- What somebody must be told, and what each destination was told of it.

-- One row per occurrence: open from the moment that the condition is first seen until it has been
-- gone for long enough. A condition that comes back later is a row of its own.
CREATE TABLE alert_condition (
    id           bigserial PRIMARY KEY,
    installation text NOT NULL,
    -- What makes two sightings the same condition: job, kind and severity.
    fingerprint  text NOT NULL,
    job          text,
    kind         text NOT NULL,
    severity     text NOT NULL,
    reason       text NOT NULL,
    -- How often it was opened within a day, this time included.
    openings     integer NOT NULL DEFAULT 1,
    first_seen   timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen    timestamptz NOT NULL DEFAULT clock_timestamp(),
    clear_since  timestamptz,
    resolved_at  timestamptz,

    CONSTRAINT alert_condition_severity_known CHECK (severity IN ('warning', 'critical')),
    CONSTRAINT alert_condition_openings_counted CHECK (openings >= 1),
    CONSTRAINT alert_condition_resolved_once_clear
        CHECK (resolved_at IS NULL OR clear_since IS NOT NULL)
);

COMMENT ON TABLE alert_condition IS 'Conditions that somebody must be told of, open and over.';
COMMENT ON COLUMN alert_condition.clear_since IS
    'Since when it was not seen any more; NULL while it is seen.';

CREATE UNIQUE INDEX alert_condition_open ON alert_condition (installation, fingerprint)
    WHERE resolved_at IS NULL;
CREATE INDEX alert_condition_openings ON alert_condition (installation, fingerprint, first_seen);
CREATE INDEX alert_condition_resolved ON alert_condition (resolved_at)
    WHERE resolved_at IS NOT NULL;

-- The outbox: one row per destination and thing to say. Sent at least once; never deleted before
-- its condition is.
CREATE TABLE alert_delivery (
    id              bigserial PRIMARY KEY,
    installation    text NOT NULL,
    destination     text NOT NULL,
    condition_id    bigint NOT NULL REFERENCES alert_condition ON DELETE CASCADE,
    what            text NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts        integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    sent_at         timestamptz,
    -- The destination left the settings before it could be told.
    dropped_at      timestamptz,
    last_error      text,

    CONSTRAINT alert_delivery_what_known CHECK (what IN ('raised', 'reminder', 'recovered')),
    CONSTRAINT alert_delivery_ends_once CHECK (sent_at IS NULL OR dropped_at IS NULL)
);

COMMENT ON TABLE alert_delivery IS 'The outbox of alerts: what each destination was and will be told.';
COMMENT ON COLUMN alert_delivery.last_error IS 'From a closed vocabulary; holds no part of a URL.';

-- Each destination hears of the beginning and of the end once, and of what lasts one at a time.
CREATE UNIQUE INDEX alert_delivery_once ON alert_delivery (condition_id, destination, what)
    WHERE what <> 'reminder' AND dropped_at IS NULL;
CREATE UNIQUE INDEX alert_delivery_one_reminder ON alert_delivery (condition_id, destination)
    WHERE what = 'reminder' AND sent_at IS NULL AND dropped_at IS NULL;
CREATE INDEX alert_delivery_unsent ON alert_delivery (installation, destination, id)
    WHERE sent_at IS NULL AND dropped_at IS NULL;
CREATE INDEX alert_delivery_of_condition ON alert_delivery (condition_id, destination, sent_at);
