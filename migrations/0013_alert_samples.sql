-- The series ALERTS and ALERTS_FOR_STATE wait here, written together with the evaluation that made them, until they are
-- in a raw object that is registered. Rows of one object share a seal, which names it: whoever repeats an interrupted
-- write makes the same object again.

CREATE TABLE lakerunner.alert_samples (
    sample_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    samples bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    seal text CHECK (seal ~ '^[0-9a-f]{32}$'),
    sealed_at timestamptz,
    busy_until timestamptz,
    CHECK ((seal IS NULL) = (sealed_at IS NULL) AND (seal IS NULL) = (busy_until IS NULL))
);
CREATE INDEX alert_samples_seal ON lakerunner.alert_samples (seal) WHERE seal IS NOT NULL;
