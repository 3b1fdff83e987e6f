-- What tiers are planned by: partitions and their versions, live segments and what is left to merge.

-- name: partitions_over
-- None is wider than a day: without that bound all of an organisation's history would be read.
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
WHERE
    org_id = %(org)s
    AND signal = %(signal)s
    AND frequency_ms = any(%(frequencies_ms)s)
    AND start_ns < %(end_ns)s
    AND start_ns > %(start_ns)s - 86400000000000
    AND start_ns + CASE WHEN frequency_ms = 86400000 THEN 86400000000000 ELSE 3600000000000 END > %(start_ns)s
ORDER BY frequency_ms, start_ns;

-- name: segments_over
-- Nearly all windows are hours; the few wider ones (31 days at most) have an index of their own.
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
    AND frequency_ms = any(%(frequencies_ms)s)
    AND hour_ns < %(end_ns)s
    AND hour_ns + width_ns > %(start_ns)s
    AND (
        hour_ns > %(start_ns)s - 3600000000000
        OR (width_ns > 3600000000000 AND hour_ns > %(start_ns)s - 2678400000000000)
    )
    AND CASE
        WHEN %(dataset)s <> '' THEN dataset = %(dataset)s
        ELSE dataset NOT IN (signal || '-quarantine', signal || '-cardinality')
    END
    AND retired_at IS NULL
ORDER BY frequency_ms, min_ns, segment_id;

-- name: due_partitions
SELECT
    org_id,
    signal,
    frequency_ms,
    start_ns,
    extract(EPOCH FROM now() - due_since)::double precision AS due_s
FROM lakerunner.partition
WHERE
    signal = %(signal)s
    AND frequency_ms = %(frequency_ms)s
    AND due_since <= now() - make_interval(secs => %(min_due_s)s)
    AND expired_at IS NULL
ORDER BY due_since, org_id, start_ns
LIMIT 20000;

-- name: put_off
UPDATE lakerunner.partition
SET due_since = CASE WHEN %(ever)s THEN NULL ELSE now() END
WHERE
    org_id = %(org)s
    AND signal = %(signal)s
    AND frequency_ms = %(frequency_ms)s
    AND start_ns = any(%(starts)s)
    AND due_since IS NOT NULL;

-- name: unsettled
-- Derived segments (origin) are swapped whole with their hour and never merged with others.
WITH open_window AS (
    SELECT DISTINCT
        org_id,
        hour_ns,
        width_ns
    FROM lakerunner.segment
    WHERE
        signal = %(signal)s
        AND NOT settled
        AND retired_at IS NULL
        AND origin = ''
        AND (%(org)s = '' OR org_id = %(org)s)
)

SELECT DISTINCT
    s.segment_id,
    s.key,
    s.org_id,
    s.collector,
    s.signal,
    s.dataset,
    s.frequency_ms,
    s.hour_ns,
    s.width_ns,
    s.rows,
    s.bytes,
    s.level,
    s.settled,
    (extract(EPOCH FROM s.published_at) * 1e9)::bigint AS published_at_ns
FROM lakerunner.segment AS s
INNER JOIN open_window AS w
    ON
        s.org_id = w.org_id
        AND s.hour_ns > w.hour_ns - 2678400000000000
        AND s.hour_ns < w.hour_ns + w.width_ns
        AND s.hour_ns + s.width_ns > w.hour_ns
WHERE
    s.signal = %(signal)s
    AND s.retired_at IS NULL
    AND s.origin = ''
    AND NOT EXISTS (
        SELECT 1
        FROM lakerunner.batch_segment AS i
        INNER JOIN lakerunner.batch AS b ON i.batch_id = b.batch_id
        WHERE i.segment_id = s.segment_id AND b.state = 'claimed'
    )
ORDER BY s.org_id, s.hour_ns, s.segment_id;

-- name: live_in
SELECT
    s.segment_id,
    s.key,
    s.org_id,
    s.collector,
    s.signal,
    s.dataset,
    s.frequency_ms,
    s.hour_ns,
    s.width_ns,
    s.rows,
    s.bytes,
    s.level,
    s.settled,
    (extract(EPOCH FROM s.published_at) * 1e9)::bigint AS published_at_ns
FROM lakerunner.segment AS s
WHERE
    s.org_id = %(org)s
    AND s.signal = %(signal)s
    AND s.hour_ns < %(end_ns)s
    AND s.hour_ns + s.width_ns > %(start_ns)s
    AND (
        s.hour_ns > %(start_ns)s - 3600000000000
        OR (s.width_ns > 3600000000000 AND s.hour_ns > %(start_ns)s - 2678400000000000)
    )
    AND s.retired_at IS NULL
    AND s.origin = ''
    AND NOT EXISTS (
        SELECT 1
        FROM lakerunner.batch_segment AS i
        INNER JOIN lakerunner.batch AS b ON i.batch_id = b.batch_id
        WHERE i.segment_id = s.segment_id AND b.state = 'claimed'
    )
ORDER BY s.hour_ns, s.segment_id;

-- name: settle
UPDATE lakerunner.segment SET settled = TRUE
WHERE segment_id IN (
    SELECT segment_id FROM lakerunner.segment
    WHERE segment_id = any(%(segment_ids)s) AND retired_at IS NULL
    ORDER BY segment_id
    FOR UPDATE
);

-- name: rule_hours
SELECT
    hour_ns,
    rule_id,
    version,
    source_version,
    eligible,
    rows,
    errors,
    refusals
FROM lakerunner.rule_hour
WHERE
    org_id = %(org)s
    AND signal = %(signal)s
    AND hour_ns >= %(start_ns)s
    AND hour_ns < %(end_ns)s
ORDER BY hour_ns, rule_id;

-- name: hour_growth
-- One statement, hence one snapshot: an object and the version that it raises are seen together.
SELECT
    s.sent_version,
    s.rewritten_version,
    coalesce(d.version, 0) AS version,
    coalesce((d.built_from ->> %(hour_text)s)::bigint, 0) AS built_version,
    coalesce(d.built_objects, '{}') AS built_objects,
    coalesce(d.built_by, '') AS built_by,
    coalesce(o.object_ids, '{}') AS object_ids,
    coalesce(o.object_rows, '{}') AS object_rows
FROM lakerunner.partition AS s
LEFT JOIN lakerunner.partition AS d
    ON
        s.org_id = d.org_id
        AND s.signal = d.signal
        AND s.start_ns = d.start_ns
        AND d.frequency_ms = %(derived_ms)s
LEFT JOIN LATERAL (
    SELECT
        array_agg(h.object_id ORDER BY h.object_id) AS object_ids,
        array_agg(h.rows ORDER BY h.object_id) AS object_rows
    FROM lakerunner.raw_object_hour AS h
    WHERE h.org_id = s.org_id AND h.signal = s.signal AND h.hour_ns = s.start_ns
) AS o ON TRUE
WHERE
    s.org_id = %(org)s
    AND s.signal = %(signal)s
    AND s.frequency_ms = 0
    AND s.start_ns = %(hour_ns)s;

-- name: cooked_of
-- Segments never change, and one that was merged with others is kept for a while.
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
    AND frequency_ms = 0
    AND hour_ns = %(hour_ns)s
    AND width_ns = 3600000000000
    AND level = 0
    AND origin = ''
    AND dataset = %(dataset)s
    AND segment_id IN (
        SELECT c.segment_id FROM lakerunner.segment_source AS c
        WHERE c.object_id = any(%(object_ids)s)
    )
ORDER BY min_ns, segment_id;

-- name: rule_gaps
-- Hours with records, now or once, that a rule was not built for from what is there now.
SELECT
    w.rule_id,
    p.start_ns
FROM lakerunner.partition AS p
CROSS JOIN unnest(%(rule_ids)s::bigint[], %(versions)s::integer[]) AS w (rule_id, version)
LEFT JOIN lakerunner.rule_hour AS h
    ON
        p.org_id = h.org_id
        AND p.signal = h.signal
        AND p.start_ns = h.hour_ns
        AND w.rule_id = h.rule_id
        AND w.version = h.version
        AND p.sent_version = h.source_version
        AND h.eligible
LEFT JOIN lakerunner.partition AS m
    ON p.org_id = m.org_id AND m.signal = 'metrics' AND m.frequency_ms = 0 AND p.start_ns = m.start_ns
WHERE
    p.org_id = %(org)s
    AND p.signal = %(signal)s
    AND p.frequency_ms = 0
    AND p.start_ns < %(end_ns)s
    AND p.start_ns > %(start_ns)s - 3600000000000
    AND p.sent_version > 0
    AND (h.rule_id IS NULL OR p.expired_at IS NOT NULL OR m.expired_at IS NOT NULL)
ORDER BY w.rule_id, p.start_ns;
