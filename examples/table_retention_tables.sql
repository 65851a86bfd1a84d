-- The tables of the five rules in docs/table_retention.md, with the indexes that the rules need.

CREATE TABLE app_session (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    account    bigint NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX app_session_expires_at ON app_session (expires_at, id);

CREATE TABLE notification (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    status  text NOT NULL DEFAULT 'queued',
    sent_at timestamp
);
CREATE INDEX notification_sent_at ON notification (sent_at, id) WHERE status = 'sent';
CREATE TABLE notification_delivery (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    notification_id bigint NOT NULL REFERENCES notification,
    channel         text NOT NULL
);
CREATE INDEX notification_delivery_notification ON notification_delivery (notification_id);

CREATE TABLE request_log (
    at     timestamptz NOT NULL,
    id     uuid NOT NULL DEFAULT gen_random_uuid(),
    path   text NOT NULL,
    status integer NOT NULL,
    PRIMARY KEY (at, id)
) PARTITION BY RANGE (at);
CREATE TABLE request_log_rest PARTITION OF request_log DEFAULT;

CREATE TABLE telemetry (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seen_at    timestamptz NOT NULL DEFAULT now(),
    ip_address inet,
    user_agent text,
    event      text NOT NULL
);
CREATE INDEX telemetry_seen_at ON telemetry (seen_at, id);
-- What is left to scrub; on a large table CREATE INDEX CONCURRENTLY.
CREATE INDEX telemetry_to_scrub ON telemetry (seen_at, id)
    WHERE ip_address IS NOT NULL OR user_agent IS NOT NULL;

CREATE TABLE admin_log (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    day        date NOT NULL,
    actor      text NOT NULL,
    action     text NOT NULL,
    legal_hold boolean
);
CREATE INDEX admin_log_day ON admin_log (day, id);
