-- Type, unit and help of metric families, which remote write 1.0 sends apart from the samples.

CREATE TABLE lakerunner.metric_metadata (
    org_id text NOT NULL REFERENCES lakerunner.organization,
    family text NOT NULL,
    type text NOT NULL,
    unit text NOT NULL,
    help text NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, family, type, unit, help)
);
