-- What the sweeper may delete. Rows are locked first and judged by the statement after: a statement that waited
-- for a lock still sees the batches of before. Locked rows are skipped, so a sweep waits for nobody.

-- name: try_lock
SELECT pg_try_advisory_lock(%(key)s) AS held;

-- name: unlock
SELECT pg_advisory_unlock(%(key)s) AS released;

-- name: retentions
SELECT
    org_id,
    signal,
    tier,
    keep_days,
    extract(EPOCH FROM now() - updated_at)::double precision AS stood_s
FROM lakerunner.retention
ORDER BY org_id, signal, tier;

-- name: put_retention
-- The same number again is no change.
INSERT INTO lakerunner.retention AS r (org_id, signal, tier, keep_days)
VALUES (%(org)s, %(signal)s, %(tier)s, %(keep_days)s)
ON CONFLICT (org_id, signal, tier) DO UPDATE
    SET
        keep_days = excluded.keep_days,
        updated_at = CASE WHEN r.keep_days = excluded.keep_days THEN r.updated_at ELSE now() END;

-- name: remove_retention
DELETE FROM lakerunner.retention
WHERE org_id = %(org)s AND signal = %(signal)s AND tier = %(tier)s;

-- name: all_organisations
SELECT org_id FROM lakerunner.organization
ORDER BY org_id;

-- name: aging_segments
SELECT
    s.segment_id,
    s.key,
    s.hour_ns,
    s.width_ns,
    s.bytes,
    exists(
        SELECT 1
        FROM lakerunner.batch_segment AS i
        INNER JOIN lakerunner.batch AS b ON i.batch_id = b.batch_id
        WHERE i.segment_id = s.segment_id AND b.state = 'claimed'
    ) AS busy
FROM lakerunner.segment AS s
WHERE
    s.org_id = %(org)s
    AND s.signal = %(signal)s
    AND s.frequency_ms = %(frequency_ms)s
    AND s.hour_ns < %(ended_by_ns)s
    AND s.retired_at IS NULL
ORDER BY s.hour_ns, s.segment_id
LIMIT %(limit)s;

-- name: aging_partitions
SELECT start_ns FROM lakerunner.partition
WHERE
    org_id = %(org)s
    AND signal = %(signal)s
    AND frequency_ms = %(frequency_ms)s
    AND start_ns < %(ended_by_ns)s
    AND expired_at IS NULL
ORDER BY start_ns
LIMIT %(limit)s;

-- name: lock_aging_partitions
SELECT start_ns FROM lakerunner.partition
WHERE
    org_id = %(org)s
    AND signal = %(signal)s
    AND frequency_ms = %(frequency_ms)s
    AND start_ns >= %(start_ns)s
    AND start_ns < %(end_ns)s
    AND expired_at IS NULL
ORDER BY start_ns
FOR UPDATE SKIP LOCKED;

-- name: lock_aging_segments
SELECT segment_id FROM lakerunner.segment
WHERE
    org_id = %(org)s
    AND signal = %(signal)s
    AND frequency_ms = %(frequency_ms)s
    AND hour_ns >= %(start_ns)s
    AND hour_ns < %(end_ns)s
    AND retired_at IS NULL
ORDER BY segment_id
FOR UPDATE SKIP LOCKED;

-- name: busy_segments
SELECT DISTINCT i.segment_id
FROM lakerunner.batch_segment AS i
INNER JOIN lakerunner.batch AS b ON i.batch_id = b.batch_id
WHERE i.segment_id = any(%(segment_ids)s) AND b.state = 'claimed';

-- name: retire_old
UPDATE lakerunner.segment SET retired_at = now()
WHERE segment_id = any(%(segment_ids)s) AND retired_at IS NULL;

-- name: expire_partitions
-- The version stays: rollups built from it are right for as long as they live.
UPDATE lakerunner.partition SET expired_at = now()
WHERE
    org_id = %(org)s
    AND signal = %(signal)s
    AND frequency_ms = %(frequency_ms)s
    AND start_ns = any(%(starts)s);

-- name: retired_segments
-- Snapshots of open tables keep the files that they name.
SELECT
    s.key,
    s.org_id AS org,
    s.bytes
FROM lakerunner.segment AS s
WHERE
    s.retired_at < now() - make_interval(secs => %(grace_s)s)
    AND (%(org)s = '' OR s.org_id = %(org)s)
    AND NOT EXISTS (
        SELECT 1
        FROM lakerunner.batch_segment AS i
        INNER JOIN lakerunner.batch AS b ON i.batch_id = b.batch_id
        WHERE i.segment_id = s.segment_id AND b.state = 'claimed'
    )
    AND NOT EXISTS (
        SELECT 1 FROM lakerunner.table_change AS c
        WHERE c.segment_id = s.segment_id AND c.retired
    )
ORDER BY s.retired_at, s.key
LIMIT %(limit)s;

-- name: lock_retired
SELECT
    s.segment_id,
    s.key,
    s.org_id AS org,
    s.bytes
FROM lakerunner.segment AS s
WHERE
    s.key = any(%(keys)s)
    AND s.retired_at < now() - make_interval(secs => %(grace_s)s)
    AND NOT EXISTS (
        SELECT 1 FROM lakerunner.table_change AS c
        WHERE c.segment_id = s.segment_id AND c.retired
    )
ORDER BY s.segment_id
FOR UPDATE SKIP LOCKED;

-- name: delete_segments
DELETE FROM lakerunner.segment
WHERE segment_id = any(%(segment_ids)s);

-- name: old_objects
-- An overwritten key holds bytes that nobody has read: a person decides about them.
SELECT
    o.object_id,
    o.bucket,
    o.key,
    o.org_id AS org,
    o.size AS bytes
FROM lakerunner.raw_object AS o
WHERE
    o.org_id = %(org)s
    AND o.signal = %(signal)s
    AND o.arrival_hour_ns <= %(ended_by_ns)s - 3600000000000
    AND o.state = 'done'
    AND o.expired_at IS NULL
    AND o.overwritten_etag IS NULL
    AND o.bucket <> all(%(without)s::text[])
    AND NOT EXISTS (
        SELECT 1
        FROM lakerunner.batch_input AS i
        INNER JOIN lakerunner.batch AS b ON i.batch_id = b.batch_id
        WHERE i.object_id = o.object_id AND b.state IN ('due', 'claimed')
    )
ORDER BY o.arrival_hour_ns, o.object_id
LIMIT %(limit)s;

-- name: lock_objects
SELECT
    object_id,
    bucket,
    key,
    org_id AS org,
    size AS bytes
FROM lakerunner.raw_object
WHERE
    object_id = any(%(object_ids)s)
    AND state = 'done'
    AND expired_at IS NULL
    AND overwritten_etag IS NULL
ORDER BY object_id
FOR UPDATE SKIP LOCKED;

-- name: busy_objects
SELECT DISTINCT i.object_id
FROM lakerunner.batch_input AS i
INNER JOIN lakerunner.batch AS b ON i.batch_id = b.batch_id
WHERE i.object_id = any(%(object_ids)s) AND b.state IN ('due', 'claimed');

-- name: expire_objects
UPDATE lakerunner.raw_object SET expired_at = now()
WHERE object_id = any(%(object_ids)s);

-- name: forgettable_objects
SELECT o.object_id
FROM lakerunner.raw_object AS o
WHERE
    o.org_id = %(org)s
    AND o.signal = %(signal)s
    AND o.arrival_hour_ns <= %(ended_by_ns)s - 3600000000000
    AND o.state = 'done'
    AND o.expired_at < now() - make_interval(secs => %(expired_s)s)
    AND o.overwritten_etag IS NULL
    AND NOT EXISTS (
        SELECT 1 FROM lakerunner.segment_source AS s
        WHERE s.object_id = o.object_id
    )
    AND NOT EXISTS (
        SELECT 1 FROM lakerunner.batch_input AS i
        WHERE i.object_id = o.object_id
    )
    AND NOT EXISTS (
        SELECT 1 FROM lakerunner.raw_object_hour AS h
        WHERE h.object_id = o.object_id AND h.hour_ns > %(ended_by_ns)s - 3600000000000
    )
ORDER BY o.arrival_hour_ns, o.object_id
LIMIT %(limit)s;

-- name: lock_expired_objects
SELECT object_id FROM lakerunner.raw_object
WHERE object_id = any(%(object_ids)s) AND expired_at IS NOT NULL
ORDER BY object_id
FOR UPDATE SKIP LOCKED;

-- name: needed_objects
-- With their rows locked nothing can begin to refer to them; what did so before is seen by this statement.
SELECT s.object_id FROM lakerunner.segment_source AS s
WHERE s.object_id = any(%(object_ids)s)
UNION
SELECT i.object_id FROM lakerunner.batch_input AS i
WHERE i.object_id = any(%(object_ids)s);

-- name: forget_hours
DELETE FROM lakerunner.raw_object_hour
WHERE object_id = any(%(object_ids)s);

-- name: forget_objects
DELETE FROM lakerunner.raw_object
WHERE object_id = any(%(object_ids)s);

-- name: known_segment_keys
SELECT key FROM lakerunner.segment
WHERE key = any(%(keys)s);

-- name: note_orphans
INSERT INTO lakerunner.orphan (key, org_id, bytes)
SELECT
    o.key,
    %(org)s,
    o.bytes
FROM unnest(%(keys)s::text[], %(bytes)s::bigint[]) AS o (key, bytes)
ORDER BY o.key
ON CONFLICT (key) DO NOTHING;

-- name: forget_orphans
DELETE FROM lakerunner.orphan
WHERE key = any(%(keys)s);

-- name: ripe_orphans
-- One statement, one moment: a publication makes a batch done and its files known together.
SELECT
    o.key,
    o.org_id AS org,
    o.bytes
FROM lakerunner.orphan AS o
WHERE
    o.found_at < now() - make_interval(secs => %(age_s)s)
    AND (%(org)s = '' OR o.org_id = %(org)s)
    AND o.org_id <> all(%(without)s::text[])
    AND NOT EXISTS (
        SELECT 1 FROM lakerunner.segment AS s
        WHERE s.key = o.key
    )
    AND NOT EXISTS (
        SELECT 1 FROM lakerunner.batch AS b
        WHERE b.state = 'claimed' AND b.org_id = o.org_id AND b.created_at <= o.found_at
    )
ORDER BY o.found_at, o.key
LIMIT %(limit)s;

-- name: lock_orphans
SELECT key FROM lakerunner.orphan
WHERE key = any(%(keys)s)
ORDER BY key
FOR UPDATE SKIP LOCKED;

-- name: still_orphans
SELECT
    o.key,
    o.org_id AS org,
    o.bytes
FROM lakerunner.orphan AS o
WHERE
    o.key = any(%(keys)s)
    AND o.found_at < now() - make_interval(secs => %(age_s)s)
    AND NOT EXISTS (
        SELECT 1 FROM lakerunner.segment AS s
        WHERE s.key = o.key
    )
    AND NOT EXISTS (
        SELECT 1 FROM lakerunner.batch AS b
        WHERE b.state = 'claimed' AND b.org_id = o.org_id AND b.created_at <= o.found_at
    )
ORDER BY o.key;

-- name: orphan_counts
WITH found AS (
    SELECT
        org_id,
        count(*) AS orphans,
        sum(bytes)::bigint AS bytes
    FROM lakerunner.orphan
    GROUP BY org_id
)

SELECT
    f.org_id,
    f.orphans,
    f.bytes,
    (
        SELECT count(*) FROM lakerunner.segment AS s
        WHERE s.org_id = f.org_id
    ) AS segments
FROM found AS f
ORDER BY f.org_id;

-- name: idle_batches
-- Done, and nothing that it published is left.
SELECT b.batch_id
FROM lakerunner.batch AS b
WHERE
    b.state = 'done'
    AND b.finished_at < now() - make_interval(secs => %(batch_s)s)
    AND NOT EXISTS (
        SELECT 1 FROM lakerunner.segment AS s
        WHERE s.batch_id = b.batch_id
    )
ORDER BY b.batch_id
LIMIT %(limit)s;

-- name: forget_batches
DELETE FROM lakerunner.batch
WHERE batch_id = any(%(batch_ids)s) AND state = 'done';

-- name: forget_silent_runs
DELETE FROM lakerunner.run_heartbeat
WHERE beat_at < now() - make_interval(secs => %(run_s)s);

-- name: leftovers
SELECT
    (
        SELECT count(*) FROM lakerunner.run_heartbeat
        WHERE beat_at < now() - make_interval(secs => %(run_s)s)
    ) AS runs,
    (
        SELECT count(*) FROM lakerunner.outbox
        WHERE created_at < now() - make_interval(secs => %(message_s)s)
    ) AS old_messages,
    (
        SELECT count(*) FROM lakerunner.segment
        WHERE retired_at IS NOT NULL
    ) AS retired;
