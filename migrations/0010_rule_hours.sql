-- Metrics that rules derive from a signal: which hours each rule was built for, and from which records.

-- Versions of what was sent alone: metrics that are derived from metrics must not make themselves due.
ALTER TABLE lakerunner.partition ADD COLUMN sent_version bigint NOT NULL DEFAULT 0;
UPDATE lakerunner.partition SET sent_version = version
WHERE frequency_ms = 0;

-- A frequency of its own says which hours have metrics derived from them: metrics have rollups of ten seconds.
UPDATE lakerunner.partition SET frequency_ms = 1
WHERE signal = 'traces' AND frequency_ms = 10000;

CREATE TABLE lakerunner.rule_hour (
    org_id text NOT NULL REFERENCES lakerunner.organization,
    signal text NOT NULL CHECK (signal IN ('logs', 'metrics', 'traces')),
    hour_ns bigint NOT NULL,
    rule_id bigint NOT NULL,
    version integer NOT NULL,
    source_version bigint NOT NULL,
    eligible boolean NOT NULL,
    rows bigint NOT NULL CHECK (rows >= 0),
    PRIMARY KEY (org_id, signal, hour_ns, rule_id)
);
