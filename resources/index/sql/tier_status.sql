-- Tiers in numbers, one statement per concern. `lakerunner status` and every reading of `/metrics` ask them all.

-- name: live
-- All live segments are counted, from an index that holds what is added up.
SELECT
    org_id AS org,
    signal,
    dataset,
    count(*) AS segments,
    sum(bytes)::bigint AS bytes,
    sum(rows)::bigint AS rows,
    count(*) FILTER (WHERE NOT settled) AS unsettled,
    coalesce(sum(bytes) FILTER (WHERE NOT settled), 0)::bigint AS unsettled_bytes,
    max(max_ns) AS newest_ns,
    (extract(EPOCH FROM now()) - max(max_ns) / 1e9)::double precision AS newest_s
FROM lakerunner.segment
WHERE retired_at IS NULL
GROUP BY org_id, signal, dataset
ORDER BY org_id, signal, dataset;

-- name: retired
SELECT
    org_id AS org,
    signal,
    dataset,
    count(*) AS retired,
    sum(bytes)::bigint AS retired_bytes
FROM lakerunner.segment
WHERE retired_at IS NOT NULL
GROUP BY org_id, signal, dataset;

-- name: due
-- A day is built once it is over, so it is not late before.
SELECT
    org_id AS org,
    signal,
    frequency_ms,
    count(*) AS due,
    extract(
        EPOCH FROM now() - min(
            CASE
                WHEN frequency_ms < 86400000 THEN due_since
                ELSE greatest(due_since, to_timestamp(start_ns / 1e9 + 86400))
            END
        )
    )::double precision AS due_s
FROM lakerunner.partition
WHERE
    due_since IS NOT NULL
    AND expired_at IS NULL
    AND (frequency_ms < 86400000 OR to_timestamp(start_ns / 1e9 + 86400) <= now())
GROUP BY org_id, signal, frequency_ms;

-- name: orphans
SELECT
    org_id AS org,
    count(*) AS files,
    sum(bytes)::bigint AS bytes
FROM lakerunner.orphan
GROUP BY org_id
ORDER BY org_id;
