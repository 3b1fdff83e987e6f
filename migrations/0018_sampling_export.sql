-- Batches of kept traces that a destination has yet to take. A batch names traces and the commits that hold their
-- spans; the spans stay in the table until they are sent.

CREATE TABLE lakerunner.sampling_batch (
    batch_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sampler_id bigint NOT NULL REFERENCES lakerunner.sampler ON DELETE CASCADE,
    destination text NOT NULL,
    sequence bigint NOT NULL,
    part integer NOT NULL,
    traces integer NOT NULL,
    body bytea NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    error text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    busy_until timestamptz NOT NULL DEFAULT now(),
    UNIQUE (sampler_id, destination, sequence, part)
);
CREATE INDEX sampling_batch_order ON lakerunner.sampling_batch (sampler_id, destination, batch_id);

-- Traces that a destination refuses for good.

CREATE TABLE lakerunner.sampling_dead_letter (
    letter_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sampler_id bigint NOT NULL REFERENCES lakerunner.sampler ON DELETE CASCADE,
    destination text NOT NULL,
    traces integer NOT NULL,
    body bytea NOT NULL,
    error text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX sampling_dead_letter_order ON lakerunner.sampling_dead_letter (sampler_id, created_at);
