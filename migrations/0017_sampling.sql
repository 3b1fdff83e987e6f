-- A sampler follows one table of spans, decides which traces are kept, and exports them. It belongs to one process for
-- as long as its lease lasts; the token of the claim fences off whatever a process writes that lost it.

CREATE TABLE lakerunner.sampler (
    sampler_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    name text NOT NULL,
    owner text NOT NULL DEFAULT '',
    token bigint NOT NULL DEFAULT 0,
    lease_until timestamptz NOT NULL DEFAULT now(),
    snapshot_id bigint NOT NULL DEFAULT 0,
    sequence bigint NOT NULL DEFAULT 0,
    low_sequence bigint NOT NULL DEFAULT 0,
    watermark_ns bigint NOT NULL DEFAULT 0,
    memory bytea NOT NULL DEFAULT '',
    policies text NOT NULL DEFAULT '',
    changed_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (org_id, name)
);

-- Reasons of decisions, each once: a decision is a row of fixed width that names one.

CREATE TABLE lakerunner.sampling_reason (
    reason_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sampler_id bigint NOT NULL REFERENCES lakerunner.sampler ON DELETE CASCADE,
    policy text NOT NULL,
    reason text NOT NULL,
    policies text NOT NULL,
    UNIQUE (sampler_id, policies, policy, reason)
);

CREATE TABLE lakerunner.sampling_decision (
    sampler_id bigint NOT NULL REFERENCES lakerunner.sampler ON DELETE CASCADE,
    trace_id bytea NOT NULL,
    is_kept boolean NOT NULL,
    reason_id integer NOT NULL,
    probability double precision NOT NULL,
    threshold bigint NOT NULL,
    spans bigint NOT NULL,
    first_ns bigint NOT NULL,
    last_ns bigint NOT NULL,
    first_sequence bigint NOT NULL,
    last_sequence bigint NOT NULL,
    sequence bigint NOT NULL,
    revision integer NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sampler_id, trace_id)
);
CREATE INDEX sampling_decision_order ON lakerunner.sampling_decision (sampler_id, sequence);
CREATE INDEX sampling_decision_kept ON lakerunner.sampling_decision (trace_id) WHERE is_kept;
