-- Records that were sent, or decoded anew, where alert rules are evaluated: rulers look which of their evaluations came
-- too early for them, and check those again.

CREATE TABLE lakerunner.alert_input (
    input_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    signal text NOT NULL CHECK (signal IN ('logs', 'metrics', 'traces')),
    min_ns bigint NOT NULL,
    max_ns bigint NOT NULL,
    metric_names text[] NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX alert_input_time ON lakerunner.alert_input (org_id, published_at);

-- Time of publication up to which a group looked at changed records, in milliseconds.

ALTER TABLE lakerunner.ruler_group ADD COLUMN checked_ms bigint NOT NULL DEFAULT 0;

-- Alerts that would have fired, or would not have, had all data been there: shown, never sent.

CREATE TABLE lakerunner.alert_correction (
    correction_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    rule_id bigint NOT NULL,
    alert text NOT NULL,
    labels jsonb NOT NULL,
    verdict text NOT NULL CHECK (verdict IN ('would_have_fired', 'would_not_have_fired')),
    from_ms bigint NOT NULL,
    to_ms bigint NOT NULL,
    value text NOT NULL,
    found_ms bigint NOT NULL,
    CHECK (from_ms <= to_ms)
);
CREATE INDEX alert_correction_time ON lakerunner.alert_correction (org_id, to_ms);
CREATE INDEX alert_correction_rule ON lakerunner.alert_correction (rule_id, to_ms);

-- What a rule decided in an interval, and just before it.

CREATE INDEX alert_change_rule ON lakerunner.alert_change (rule_id, at_ms);

-- How each recording rule went in the newest hour that was recorded.

CREATE TABLE lakerunner.recorded_rule (
    org_id text NOT NULL REFERENCES lakerunner.organization,
    rule_group text NOT NULL,
    record text NOT NULL,
    hour_ns bigint NOT NULL,
    error text NOT NULL DEFAULT '',
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, rule_group, record)
);
