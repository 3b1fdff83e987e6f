-- Groups of alert rules are spread over `ruler` processes. A group belongs to its owner for as long as the lease of
-- that process lasts; the token of the claim fences off an owner that lost it.

CREATE TABLE lakerunner.ruler_process (
    owner text PRIMARY KEY,
    lease_until timestamptz NOT NULL
);

CREATE TABLE lakerunner.ruler_group (
    rule_id bigint PRIMARY KEY,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    owner text NOT NULL DEFAULT '',
    token bigint NOT NULL DEFAULT 0,
    version integer NOT NULL DEFAULT 0,
    evaluated_ms bigint NOT NULL DEFAULT 0,
    finished_at timestamptz,
    duration_s double precision NOT NULL DEFAULT 0,
    delay_s double precision NOT NULL DEFAULT 0,
    missed bigint NOT NULL DEFAULT 0,
    error text NOT NULL DEFAULT '',
    state jsonb NOT NULL DEFAULT '{}',
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ruler_group_org ON lakerunner.ruler_group (org_id);

-- Changes of the states of alerts, for whoever looks back.

CREATE TABLE lakerunner.alert_change (
    change_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    rule_id bigint NOT NULL,
    alert text NOT NULL,
    labels jsonb NOT NULL,
    state text NOT NULL CHECK (state IN ('pending', 'firing', 'inactive')),
    value text NOT NULL,
    at_ms bigint NOT NULL
);
CREATE INDEX alert_change_time ON lakerunner.alert_change (org_id, at_ms);

-- Notifications that a receiver has yet to take. A repeated one replaces the one that still waits; a receiver is
-- sent to by one process at a time, so that what happened later arrives later.

CREATE TABLE lakerunner.alert_notice (
    notice_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    receiver text NOT NULL,
    identity text NOT NULL,
    revision integer NOT NULL DEFAULT 1,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    body jsonb NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    error text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    busy_until timestamptz NOT NULL DEFAULT now(),
    UNIQUE (receiver, identity)
);
CREATE INDEX alert_notice_order ON lakerunner.alert_notice (receiver, notice_id);
CREATE INDEX alert_notice_busy ON lakerunner.alert_notice (receiver, busy_until);
