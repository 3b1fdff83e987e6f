-- Work on segments (compaction, sealing, rollups), what is due, how long things are kept, what the sweeper saw.

-- Batches of segments: their inputs are frozen like raw objects are.

ALTER TABLE lakerunner.batch DROP CONSTRAINT batch_kind_check;
ALTER TABLE lakerunner.batch ADD CONSTRAINT batch_kind_check
CHECK (kind IN ('cook', 'rebuild', 'compact', 'seal', 'carve', 'rollup'));
ALTER TABLE lakerunner.batch ADD COLUMN frequency_ms bigint NOT NULL DEFAULT 0;

CREATE TABLE lakerunner.batch_segment (
    batch_id bigint NOT NULL REFERENCES lakerunner.batch ON DELETE CASCADE,
    ordinal integer NOT NULL,
    segment_id text NOT NULL REFERENCES lakerunner.segment ON DELETE CASCADE,
    PRIMARY KEY (batch_id, ordinal)
);
CREATE INDEX batch_segment_segment ON lakerunner.batch_segment (segment_id);

-- A settled segment has nothing to be merged with. Only the others are looked at by the planner.

ALTER TABLE lakerunner.segment ADD COLUMN settled boolean NOT NULL DEFAULT FALSE;
CREATE INDEX segment_unsettled ON lakerunner.segment (signal, org_id, hour_ns)
WHERE retired_at IS NULL AND NOT settled;

-- A partition is due when what it is built from changed; the first such change is remembered.

ALTER TABLE lakerunner.partition ADD COLUMN due_since timestamptz;
ALTER TABLE lakerunner.partition ADD COLUMN expired_at timestamptz;
CREATE INDEX partition_due ON lakerunner.partition (signal, frequency_ms, org_id, start_ns)
WHERE due_since IS NOT NULL;

INSERT INTO lakerunner.partition (org_id, signal, frequency_ms, start_ns, due_since)
SELECT
    p.org_id,
    p.signal,
    10000,
    p.start_ns,
    now()
FROM lakerunner.partition AS p
WHERE p.signal = 'metrics' AND p.frequency_ms = 0 AND p.version > 0
ON CONFLICT (org_id, signal, frequency_ms, start_ns) DO NOTHING;

-- How long things are kept; what has no row is kept for ever.

CREATE TABLE lakerunner.retention (
    org_id text NOT NULL REFERENCES lakerunner.organization,
    signal text NOT NULL CHECK (signal IN ('logs', 'metrics', 'traces')),
    tier text NOT NULL CHECK (tier IN ('raw', 'segments', '10s', '1m', '5m', '1h', '1d')),
    keep_days integer NOT NULL CHECK (keep_days > 0),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, signal, tier),
    CHECK (signal = 'metrics' OR tier IN ('raw', 'segments'))
);

-- A raw object whose bytes were deleted keeps its row while segments hold rows of it.

ALTER TABLE lakerunner.raw_object ADD COLUMN expired_at timestamptz;
CREATE INDEX raw_object_expirable ON lakerunner.raw_object (org_id, signal, arrival_hour_ns)
WHERE state = 'done' AND expired_at IS NULL;

-- Files in the lake that the index does not know, since when.

CREATE TABLE lakerunner.orphan (
    key text PRIMARY KEY,
    org_id text NOT NULL,
    bytes bigint NOT NULL,
    found_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX orphan_found ON lakerunner.orphan (found_at);

-- Batches are forgotten when no segment came from them.

CREATE INDEX segment_batch ON lakerunner.segment (batch_id);

-- What the sweeper looks for.

CREATE INDEX partition_unexpired ON lakerunner.partition (org_id, signal, frequency_ms, start_ns)
WHERE expired_at IS NULL;
CREATE INDEX raw_object_expired ON lakerunner.raw_object (org_id, signal, arrival_hour_ns)
WHERE expired_at IS NOT NULL;

-- What `status` and `/metrics` add up.

CREATE INDEX segment_tier ON lakerunner.segment (org_id, signal, dataset)
INCLUDE (bytes, rows, settled, max_ns) WHERE retired_at IS NULL;

-- Sealed days and months, which may hold an hour without beginning near it.

CREATE INDEX segment_wide ON lakerunner.segment (org_id, signal, frequency_ms, hour_ns)
WHERE retired_at IS NULL AND width_ns > 3600000000000;
