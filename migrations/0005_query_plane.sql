-- Query workers that register themselves; a row without a recent heartbeat is a worker that is gone.

CREATE TABLE lakerunner.query_worker (
    url text PRIMARY KEY,
    beat_at timestamptz NOT NULL DEFAULT now()
);

-- Nearly all segments span at most an hour: of those only a short run of `max_ns` can overlap an interval. The
-- few wider ones have an index of their own.

CREATE INDEX segment_live_narrow ON lakerunner.segment (org_id, dataset, frequency_ms, max_ns, min_ns)
WHERE retired_at IS NULL AND max_ns - min_ns <= 3600000000000;
CREATE INDEX segment_live_wide ON lakerunner.segment (org_id, dataset, frequency_ms, max_ns, min_ns)
WHERE retired_at IS NULL AND max_ns - min_ns > 3600000000000;
DROP INDEX lakerunner.segment_live;
