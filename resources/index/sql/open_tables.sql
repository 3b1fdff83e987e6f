-- Datasets that other engines read as tables, and what changed in them.

-- name: list_tables
SELECT
    t.table_id,
    t.org_id AS org,
    t.dataset,
    t.version,
    t.committed,
    coalesce(extract(EPOCH FROM now() - t.changed_at), 0)::double precision AS waited_s,
    coalesce(extract(EPOCH FROM now() - t.committed_at), 'infinity')::double precision AS committed_s,
    (
        SELECT count(*) FROM lakerunner.table_change AS c
        WHERE c.table_id = t.table_id AND c.retired
    ) AS held
FROM lakerunner.open_table AS t
WHERE %(org)s = '' OR t.org_id = %(org)s
ORDER BY t.org_id, t.dataset;

-- name: wait_for_publications
-- One that has inserted its segments already would not see the table, and its segments would be missed.
LOCK TABLE lakerunner.segment IN SHARE MODE;

-- name: add_table
INSERT INTO lakerunner.open_table (org_id, dataset)
VALUES (%(org)s, %(dataset)s)
ON CONFLICT (org_id, dataset) DO NOTHING;

-- name: remove_table
DELETE FROM lakerunner.open_table
WHERE org_id = %(org)s AND dataset = %(dataset)s;

-- name: lock_tables
-- The last lock of a publication: whoever holds it waits for nobody.
SELECT t.table_id FROM lakerunner.open_table AS t
WHERE
    t.org_id = %(org)s
    AND t.dataset IN (
        SELECT s.dataset FROM lakerunner.segment AS s
        WHERE s.segment_id = any(%(segment_ids)s)
    )
ORDER BY t.table_id
FOR UPDATE;

-- name: raise_tables
UPDATE lakerunner.open_table
SET version = version + 1, changed_at = coalesce(changed_at, now())
WHERE table_id = any(%(table_ids)s);

-- name: add_changes
INSERT INTO lakerunner.table_change (table_id, version, segment_id, retired)
SELECT
    t.table_id,
    t.version,
    s.segment_id,
    s.retired_at IS NOT NULL
FROM lakerunner.segment AS s
INNER JOIN lakerunner.open_table AS t ON s.org_id = t.org_id AND s.dataset = t.dataset
WHERE s.segment_id = any(%(segment_ids)s) AND t.table_id = any(%(table_ids)s);

-- name: one_table
SELECT
    table_id,
    version
FROM lakerunner.open_table
WHERE org_id = %(org)s AND dataset = %(dataset)s;

-- name: live_totals
SELECT
    count(*) AS segments,
    coalesce(sum(rows), 0)::bigint AS rows
FROM lakerunner.segment
WHERE org_id = %(org)s AND dataset = %(dataset)s AND retired_at IS NULL;

-- name: live_files
SELECT
    segment_id,
    key,
    hour_ns,
    width_ns,
    rows,
    bytes,
    FALSE AS retired
FROM lakerunner.segment
WHERE org_id = %(org)s AND dataset = %(dataset)s AND retired_at IS NULL
ORDER BY hour_ns, segment_id;

-- name: changed_files
-- What came and went since then is in no snapshot and concerns none.
SELECT
    s.segment_id,
    s.key,
    s.hour_ns,
    s.width_ns,
    s.rows,
    s.bytes,
    bool_or(c.retired) AS retired
FROM lakerunner.table_change AS c
INNER JOIN lakerunner.segment AS s ON c.segment_id = s.segment_id
WHERE c.table_id = %(table_id)s AND c.version > %(version)s
GROUP BY s.segment_id
HAVING count(*) = 1
ORDER BY s.hour_ns, s.segment_id;

-- name: note_commit
UPDATE lakerunner.open_table
SET
    committed = greatest(committed, %(version)s),
    changed_at = CASE WHEN version > greatest(committed, %(version)s) THEN now() END,
    committed_at = now()
WHERE table_id = %(table_id)s;

-- name: forget_changes
DELETE FROM lakerunner.table_change
WHERE table_id = %(table_id)s AND version <= %(oldest)s;
