-- The steps of one publication, all in one transaction. Every count is checked by the caller.

-- name: finish_batch
UPDATE lakerunner.batch
SET state = 'done', claim_token = NULL, heartbeat_at = NULL, error = NULL, finished_at = now()
WHERE batch_id = %(batch_id)s AND state = 'claimed' AND claim_token = %(token)s;

-- name: ensure_partition
INSERT INTO lakerunner.partition (org_id, signal, frequency_ms, start_ns)
VALUES (%(org)s, %(signal)s, %(frequency_ms)s, %(start_ns)s)
ON CONFLICT (org_id, signal, frequency_ms, start_ns) DO NOTHING;

-- name: lock_partition
-- In key order, so that two publications of the same hours wait instead of deadlocking.
SELECT version FROM lakerunner.partition
WHERE
    org_id = %(org)s
    AND signal = %(signal)s
    AND frequency_ms = %(frequency_ms)s
    AND start_ns = %(start_ns)s
FOR UPDATE;

-- name: bump_partition
UPDATE lakerunner.partition
SET
    version = version + 1,
    sent_version = sent_version + CASE WHEN %(sent)s THEN 1 ELSE 0 END,
    rewritten_version = CASE WHEN %(rewrite)s THEN sent_version + 1 ELSE rewritten_version END,
    updated_at = now()
WHERE
    org_id = %(org)s
    AND signal = %(signal)s
    AND frequency_ms = %(frequency_ms)s
    AND start_ns = %(start_ns)s
RETURNING version;

-- name: source_versions
-- Read after the partition that is built from them was locked: whoever changes one of them locks that too,
-- to mark it as due, so either this sees the change or the mark comes after it.
SELECT
    start_ns,
    version
FROM lakerunner.partition
WHERE
    org_id = %(org)s
    AND signal = %(signal)s
    AND frequency_ms = %(frequency_ms)s
    AND start_ns >= %(from_ns)s
    AND start_ns < %(to_ns)s
    AND version > 0;

-- name: sent_versions
-- As `source_versions`, for metrics that are derived from records.
SELECT
    start_ns,
    sent_version AS version
FROM lakerunner.partition
WHERE
    org_id = %(org)s
    AND signal = %(signal)s
    AND frequency_ms = %(frequency_ms)s
    AND start_ns >= %(from_ns)s
    AND start_ns < %(to_ns)s
    AND sent_version > 0;

-- name: drop_rule_hours
DELETE FROM lakerunner.rule_hour
WHERE org_id = %(org)s AND signal = %(signal)s AND hour_ns = %(hour_ns)s;

-- name: insert_rule_hour
INSERT INTO lakerunner.rule_hour
(org_id, signal, hour_ns, rule_id, version, source_version, eligible, rows, errors, refusals)
VALUES
(
    %(org)s, %(signal)s, %(hour_ns)s, %(rule_id)s, %(version)s, %(source_version)s, %(eligible)s, %(rows)s,
    %(errors)s, %(refusals)s
);

-- name: note_built
UPDATE lakerunner.partition
SET
    built_from = %(built_from)s,
    built_objects = %(objects)s,
    built_by = %(by)s,
    due_since = CASE WHEN %(current)s THEN NULL ELSE coalesce(due_since, now()) END
WHERE
    org_id = %(org)s
    AND signal = %(signal)s
    AND frequency_ms = %(frequency_ms)s
    AND start_ns = %(start_ns)s;

-- name: mark_due
INSERT INTO lakerunner.partition AS p (org_id, signal, frequency_ms, start_ns, due_since)
VALUES (%(org)s, %(signal)s, %(frequency_ms)s, %(start_ns)s, now())
ON CONFLICT (org_id, signal, frequency_ms, start_ns) DO UPDATE
    SET due_since = coalesce(p.due_since, now());

-- name: mark_derivable
-- Hours of a signal that nothing is derived from are not due, and cost no row.
INSERT INTO lakerunner.partition AS p (org_id, signal, frequency_ms, start_ns, due_since)
SELECT
    %(org)s,
    %(signal)s,
    %(frequency_ms)s,
    h.start_ns,
    now()
FROM unnest(%(starts)s::bigint[]) AS h (start_ns)
WHERE
    %(always)s
    OR EXISTS (
        SELECT 1
        FROM lakerunner.rule AS r
        INNER JOIN lakerunner.rule_version AS v ON r.rule_id = v.rule_id AND r.version = v.version
        WHERE
            r.org_id = %(org)s
            AND r.kind = 'derived'
            AND NOT r.retired
            AND v.document ->> 'source' = %(signal)s
    )
ORDER BY h.start_ns
ON CONFLICT (org_id, signal, frequency_ms, start_ns) DO UPDATE
    SET due_since = coalesce(p.due_since, now());

-- name: mark_recordable
-- Hours of a signal that no recording rule reads are not due, and cost no row.
INSERT INTO lakerunner.partition AS p (org_id, signal, frequency_ms, start_ns, due_since)
SELECT
    %(org)s,
    'metrics',
    %(frequency_ms)s,
    h.start_ns,
    now()
FROM unnest(%(starts)s::bigint[]) AS h (start_ns)
WHERE
    EXISTS (
        SELECT 1
        FROM lakerunner.rule AS r
        INNER JOIN lakerunner.rule_version AS v ON r.rule_id = v.rule_id AND r.version = v.version
        WHERE
            r.org_id = %(org)s
            AND r.kind = 'group'
            AND NOT r.retired
            AND v.document ->> 'language' = %(language)s
            AND v.document -> 'rules' @> '[{"rule": "record"}]'
    )
ORDER BY h.start_ns
ON CONFLICT (org_id, signal, frequency_ms, start_ns) DO UPDATE
    SET due_since = coalesce(p.due_since, now());

-- name: recorded_sources
-- Versions only grow, so their sum changes whenever one of them does.
SELECT
    start_ns,
    sum(CASE WHEN frequency_ms = 0 THEN sent_version ELSE version END)::bigint AS version
FROM lakerunner.partition
WHERE
    org_id = %(org)s
    AND ((frequency_ms = 0 AND signal = any(%(signals)s)) OR frequency_ms = %(derived_ms)s)
    AND start_ns >= %(from_ns)s
    AND start_ns < %(to_ns)s
GROUP BY start_ns
HAVING sum(CASE WHEN frequency_ms = 0 THEN sent_version ELSE version END) > 0
ORDER BY start_ns;

-- name: mark_following
-- Hours that were recorded from another version of this one.
UPDATE lakerunner.partition
SET due_since = coalesce(due_since, now())
WHERE
    org_id = %(org)s
    AND signal = 'metrics'
    AND frequency_ms = %(frequency_ms)s
    AND start_ns > %(start_ns)s
    AND start_ns <= %(last_ns)s
    AND version > 0
    AND coalesce((built_from ->> %(start_text)s)::bigint, 0) <> %(source)s;

-- name: rules_revision
SELECT coalesce(max(revision), 0)::bigint AS revision FROM lakerunner.rule_revision
WHERE org_id = %(org)s;

-- name: sources_of_hour
SELECT h.object_id
FROM lakerunner.raw_object_hour AS h
WHERE h.org_id = %(org)s AND h.signal = %(signal)s AND h.hour_ns = %(hour_ns)s
ORDER BY h.object_id;

-- name: give_up_sources
DELETE FROM lakerunner.raw_object_hour
WHERE
    org_id = %(org)s
    AND signal = %(signal)s
    AND hour_ns = %(hour_ns)s
    AND object_id = any(%(object_ids)s);

-- name: insert_segment
INSERT INTO lakerunner.segment
(
    segment_id, key, org_id, collector, signal, dataset, frequency_ms, dateint, hour,
    hour_ns, width_ns, min_ns, max_ns, rows, bytes, level, origin, format_version, sort_version,
    terms, label_names, metric_names, series_offset, series_length, bloom_offset, bloom_length,
    batch_id, settled
)
VALUES
(
    %(segment_id)s, %(key)s, %(org)s, %(collector)s, %(signal)s, %(dataset)s,
    %(frequency_ms)s, %(dateint)s, %(hour)s, %(hour_ns)s, %(width_ns)s, %(min_ns)s,
    %(max_ns)s, %(rows)s, %(bytes)s, %(level)s, %(origin)s, %(format_version)s,
    %(sort_version)s, %(terms)s, %(label_names)s, %(metric_names)s, %(series_offset)s,
    %(series_length)s, %(bloom_offset)s, %(bloom_length)s, %(batch_id)s, %(settled)s
);

-- name: insert_sources
INSERT INTO lakerunner.segment_source (segment_id, object_id)
SELECT
    %(segment_id)s,
    o.object_id
FROM unnest(%(object_ids)s::bigint[]) AS o (object_id);

-- name: retire
-- Locked in order of id, like everywhere: whoever locks the same segments waits instead of deadlocking.
UPDATE lakerunner.segment SET retired_at = now()
WHERE segment_id IN (
    SELECT segment_id FROM lakerunner.segment
    WHERE segment_id = any(%(segment_ids)s) AND org_id = %(org)s AND retired_at IS NULL
    ORDER BY segment_id
    FOR UPDATE
);

-- name: object_done
UPDATE lakerunner.raw_object
SET
    state = 'done',
    etag = %(etag)s,
    rows = %(rows)s,
    rejected = %(rejected)s,
    quarantined = %(quarantined)s,
    error = nullif(%(remark)s, ''),
    done_at = now()
WHERE object_id = %(object_id)s AND state = 'batched';

-- name: object_hours
INSERT INTO lakerunner.raw_object_hour (object_id, hour_ns, rows, org_id, signal)
VALUES (%(object_id)s, %(hour_ns)s, %(rows)s, %(org)s, %(signal)s);

-- name: object_failed
-- An error row counts as a try. Only an object that was alone in its batch may be parked; the others
-- wait (longer after each try) and then go alone.
UPDATE lakerunner.raw_object
SET
    tries = tries + 1,
    error = %(error)s,
    state = CASE WHEN %(alone)s AND tries + 1 >= %(max_tries)s THEN 'parked' ELSE 'registered' END,
    next_try_at = now() + make_interval(secs => least(300, power(2, tries)))
WHERE object_id = %(object_id)s AND state = 'batched';

-- name: append_outbox
INSERT INTO lakerunner.outbox (topic, key, payload)
VALUES (%(topic)s, %(key)s, %(payload)s);

-- name: lock_outbox
SELECT
    outbox_id,
    topic,
    key,
    payload
FROM lakerunner.outbox
ORDER BY outbox_id
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED;

-- name: delete_outbox
DELETE FROM lakerunner.outbox
WHERE outbox_id = any(%(ids)s);
