-- What queries, rebuilds and people read.

-- name: find_segments
-- Every element of `terms` is a set of alternatives; the caller repeats the && per element. Terms are never read
-- back and names only where somebody wants them: they are long. Narrow segments and wide ones have an index each.
SELECT
    segment_id,
    key,
    org_id,
    collector,
    signal,
    dataset,
    frequency_ms,
    hour_ns,
    width_ns,
    min_ns,
    max_ns,
    rows,
    bytes,
    level,
    origin,
    format_version,
    sort_version,
    series_offset,
    series_length,
    bloom_offset,
    bloom_length,
    settled,
    CASE WHEN %(names)s THEN label_names END AS label_names,
    CASE WHEN %(names)s THEN metric_names END AS metric_names
FROM lakerunner.segment
WHERE
    org_id = %(org)s
    AND dataset = %(dataset)s
    AND frequency_ms = %(frequency_ms)s
    AND max_ns >= %(start_ns)s
    AND min_ns <= %(end_ns)s
    AND retired_at IS NULL
    AND (%(collectors)s::text[] IS NULL OR collector = any(%(collectors)s))
    AND max_ns <= %(end_ns)s + 3600000000000
    AND max_ns - min_ns <= 3600000000000
UNION ALL
SELECT
    segment_id,
    key,
    org_id,
    collector,
    signal,
    dataset,
    frequency_ms,
    hour_ns,
    width_ns,
    min_ns,
    max_ns,
    rows,
    bytes,
    level,
    origin,
    format_version,
    sort_version,
    series_offset,
    series_length,
    bloom_offset,
    bloom_length,
    settled,
    CASE WHEN %(names)s THEN label_names END AS label_names,
    CASE WHEN %(names)s THEN metric_names END AS metric_names
FROM lakerunner.segment
WHERE
    org_id = %(org)s
    AND dataset = %(dataset)s
    AND frequency_ms = %(frequency_ms)s
    AND max_ns >= %(start_ns)s
    AND min_ns <= %(end_ns)s
    AND retired_at IS NULL
    AND (%(collectors)s::text[] IS NULL OR collector = any(%(collectors)s))
    AND max_ns - min_ns > 3600000000000
ORDER BY min_ns, segment_id;

-- name: live_ids
SELECT
    segment_id,
    min_ns
FROM lakerunner.segment
WHERE
    org_id = %(org)s
    AND dataset = %(dataset)s
    AND frequency_ms = %(frequency_ms)s
    AND max_ns >= %(start_ns)s
    AND min_ns <= %(end_ns)s
    AND retired_at IS NULL
    AND max_ns <= %(end_ns)s + 3600000000000
    AND max_ns - min_ns <= 3600000000000
UNION ALL
SELECT
    segment_id,
    min_ns
FROM lakerunner.segment
WHERE
    org_id = %(org)s
    AND dataset = %(dataset)s
    AND frequency_ms = %(frequency_ms)s
    AND max_ns >= %(start_ns)s
    AND min_ns <= %(end_ns)s
    AND retired_at IS NULL
    AND max_ns - min_ns > 3600000000000
ORDER BY min_ns, segment_id
LIMIT %(most)s;

-- name: whole_segments
-- Terms travel as PostgreSQL sends arrays: as text they would take ten times as long to read.
SELECT
    segment_id,
    key,
    org_id,
    collector,
    signal,
    dataset,
    frequency_ms,
    hour_ns,
    width_ns,
    min_ns,
    max_ns,
    rows,
    bytes,
    level,
    origin,
    format_version,
    sort_version,
    series_offset,
    series_length,
    bloom_offset,
    bloom_length,
    settled,
    label_names,
    metric_names,
    array_send(terms) AS terms_sent
FROM lakerunner.segment
WHERE segment_id = any(%(ids)s);

-- name: count_segments
SELECT count(*) FROM lakerunner.segment
WHERE org_id = %(org)s AND dataset = %(dataset)s AND retired_at IS NULL;

-- name: live_segments
SELECT
    segment_id,
    key,
    org_id,
    collector,
    signal,
    dataset,
    frequency_ms,
    hour_ns,
    width_ns,
    min_ns,
    max_ns,
    rows,
    bytes,
    level,
    origin,
    format_version,
    sort_version,
    series_offset,
    series_length,
    bloom_offset,
    bloom_length,
    settled
FROM lakerunner.segment
WHERE
    org_id = %(org)s
    AND signal = %(signal)s
    AND frequency_ms = %(frequency_ms)s
    AND hour_ns = %(hour_ns)s
    AND dataset = %(signal)s
    AND retired_at IS NULL
ORDER BY min_ns, segment_id;

-- name: objects_with_rows_in
SELECT
    o.object_id,
    o.bucket,
    o.key,
    o.size,
    o.etag,
    o.tries,
    o.arrival_hour_ns,
    o.collector,
    h.rows AS hour_rows
FROM lakerunner.raw_object_hour AS h
INNER JOIN lakerunner.raw_object AS o ON h.object_id = o.object_id
WHERE h.org_id = %(org)s AND h.signal = %(signal)s AND h.hour_ns = %(hour_ns)s
ORDER BY o.object_id;

-- name: partitions
SELECT
    org_id,
    signal,
    frequency_ms,
    start_ns,
    version,
    built_from,
    (extract(EPOCH FROM updated_at) * 1e9)::bigint AS updated_at_ns,
    due_since IS NOT NULL AS due,
    expired_at IS NOT NULL AS expired,
    sent_version
FROM lakerunner.partition
WHERE org_id = %(org)s AND signal = %(signal)s AND frequency_ms = %(frequency_ms)s
ORDER BY start_ns;

-- name: beat_run
INSERT INTO lakerunner.run_heartbeat (run_id) VALUES (%(run_id)s)
ON CONFLICT (run_id) DO UPDATE SET beat_at = now();

-- name: rest_run
INSERT INTO lakerunner.run_heartbeat (run_id, beat_at)
VALUES (%(run_id)s, now() + make_interval(secs => %(seconds)s))
ON CONFLICT (run_id) DO UPDATE SET beat_at = excluded.beat_at;

-- name: forget_run
DELETE FROM lakerunner.run_heartbeat
WHERE run_id = %(run_id)s;

-- name: run_heartbeats
SELECT
    run_id,
    extract(EPOCH FROM now() - beat_at)::double precision AS age_s
FROM lakerunner.run_heartbeat;

-- name: pipeline_status
SELECT
    org_id AS org,
    signal,
    count(*) FILTER (WHERE state IN ('registered', 'batched')) AS pending_objects,
    least(coalesce(sum(size) FILTER (WHERE state IN ('registered', 'batched')), 0), 9223372036854775807)::bigint
        AS pending_bytes,
    coalesce(
        extract(EPOCH FROM now() - min(registered_at) FILTER (WHERE state IN ('registered', 'batched'))),
        0
    )::double precision AS oldest_pending_s,
    count(*) FILTER (WHERE state = 'done') AS done_objects,
    count(*) FILTER (WHERE state = 'parked') AS parked_objects,
    count(*) FILTER (WHERE overwritten_etag IS NOT NULL) AS overwritten_objects,
    coalesce(sum(rows), 0)::bigint AS rows,
    coalesce(sum(rejected), 0)::bigint AS rejected,
    coalesce(sum(quarantined), 0)::bigint AS quarantined,
    (
        SELECT count(*) FROM lakerunner.segment AS s
        WHERE
            s.org_id = o.org_id AND s.signal = o.signal AND s.retired_at IS NULL
    ) AS segments,
    (
        SELECT coalesce(sum(s.bytes), 0)::bigint FROM lakerunner.segment AS s
        WHERE
            s.org_id = o.org_id AND s.signal = o.signal AND s.retired_at IS NULL
    ) AS segment_bytes
FROM lakerunner.raw_object AS o
GROUP BY org_id, signal
ORDER BY org_id, signal;

-- name: ingest_losses
SELECT
    signal,
    coalesce(sum(rows), 0)::bigint AS rows,
    coalesce(sum(rejected), 0)::bigint AS rejected,
    coalesce(sum(quarantined), 0)::bigint AS quarantined,
    count(*) FILTER (WHERE state = 'parked') AS parked_objects,
    coalesce(
        (array_agg(error ORDER BY object_id DESC) FILTER (WHERE rejected > 0 OR state = 'parked'))[1], ''
    ) AS reason
FROM lakerunner.raw_object
WHERE
    org_id = %(org)s
    AND signal IN ('logs', 'metrics', 'traces')
    AND arrival_hour_ns BETWEEN %(first_ns)s AND %(last_ns)s
GROUP BY signal
ORDER BY signal;

-- name: counters
SELECT
    name,
    value
FROM lakerunner.counter
ORDER BY name;

-- name: backlog
SELECT
    (SELECT count(*) FROM lakerunner.dead_letter) AS dead_letters,
    count(*) AS outbox_messages,
    coalesce(extract(EPOCH FROM now() - min(created_at)), 0)::double precision AS outbox_oldest_s
FROM lakerunner.outbox;
