-- Registering what notifications and listings announce.

-- name: read_offsets
SELECT
    topic,
    partition,
    next_offset
FROM lakerunner.consumed_offset
WHERE cluster = %(cluster)s AND topic = %(topic)s
ORDER BY partition;

-- name: move_offset
INSERT INTO lakerunner.consumed_offset (cluster, topic, partition, next_offset)
VALUES (%(cluster)s, %(topic)s, %(partition)s, %(next_offset)s)
ON CONFLICT (cluster, topic, partition) DO UPDATE
    SET next_offset = excluded.next_offset, updated_at = now();

-- name: register
-- A known (bucket, key) inserts nothing: repeated notifications are harmless. In key order, so that two ticks
-- cannot deadlock.
INSERT INTO lakerunner.raw_object
(bucket, key, org_id, collector, signal, arrival_hour_ns, size, etag, version)
SELECT
    n.bucket,
    n.key,
    n.org_id,
    n.collector,
    n.signal,
    n.arrival_hour_ns,
    n.size,
    n.etag,
    n.version
FROM
    unnest(
        %(bucket)s::text[], %(key)s::text[], %(org)s::text[], %(collector)s::text[], %(signal)s::text[],
        %(arrival_hour_ns)s::bigint[], %(size)s::bigint[], %(etag)s::text[], %(version)s::text[]
    ) AS n (bucket, key, org_id, collector, signal, arrival_hour_ns, size, etag, version)
ORDER BY n.bucket, n.key
ON CONFLICT (bucket, key) DO NOTHING
RETURNING bucket, key;

-- name: mark_overwritten
-- Raw objects are immutable. Another etag under a finished key is reported and never mixed in silently.
UPDATE lakerunner.raw_object AS o SET overwritten_etag = n.etag
FROM unnest(%(bucket)s::text[], %(key)s::text[], %(etag)s::text[]) AS n (bucket, key, etag)
WHERE
    o.bucket = n.bucket
    AND o.key = n.key
    AND o.state IN ('done', 'parked')
    AND n.etag <> ''
    AND o.etag <> ''
    AND o.etag <> n.etag;

-- name: keep_dead_letter
INSERT INTO lakerunner.dead_letter (source, topic, partition, message_offset, reason, payload)
VALUES
(%(source)s, %(topic)s, %(partition)s, %(offset)s, %(reason)s, %(payload)s);

-- name: known_keys
SELECT key FROM lakerunner.raw_object
WHERE bucket = %(bucket)s AND key = any(%(keys)s);

-- name: add_counter
INSERT INTO lakerunner.counter AS c (name, value)
VALUES (%(name)s, %(amount)s)
ON CONFLICT (name) DO UPDATE SET value = c.value + excluded.value;

-- name: set_gauge
INSERT INTO lakerunner.counter (name, value)
VALUES (%(name)s, %(value)s)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
