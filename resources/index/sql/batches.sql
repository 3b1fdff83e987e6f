-- The life of a batch: planned, claimed, kept alive, given back, split.

-- name: pending
-- Locked so that two ticks cannot put one object into two batches.
SELECT
    object_id,
    org_id,
    collector,
    signal,
    arrival_hour_ns,
    size,
    tries,
    (extract(EPOCH FROM registered_at) * 1e9)::bigint AS registered_at_ns
FROM lakerunner.raw_object
WHERE
    state = 'registered'
    AND signal = %(signal)s
    AND next_try_at <= now()
    AND org_id <> all(%(held_back)s::text[])
ORDER BY object_id
LIMIT 20000
FOR UPDATE SKIP LOCKED;

-- name: batched_bytes
SELECT
    org_id,
    least(sum(input_bytes), 9223372036854775807)::bigint AS bytes
FROM lakerunner.batch
WHERE kind = 'cook' AND created_at > now() - make_interval(secs => %(window_s)s)
GROUP BY org_id;

-- name: pending_bytes
-- What an organisation's own limit holds back is no reason to stop reading for the others, nor is one object
-- that says it is huge.
SELECT coalesce(sum(least(size, 4294967296)), 0)::bigint AS bytes
FROM lakerunner.raw_object
WHERE
    signal = %(signal)s
    AND state IN ('registered', 'batched')
    AND NOT (
        state = 'registered'
        AND org_id IN (
            SELECT s.org_id
            FROM lakerunner.org_setting AS s
            WHERE s.name = 'ingest_bytes_per_minute'
        )
    );

-- name: pending_in_hours
SELECT
    object_id,
    org_id,
    collector,
    signal,
    arrival_hour_ns,
    size,
    tries,
    (extract(EPOCH FROM registered_at) * 1e9)::bigint AS registered_at_ns
FROM lakerunner.raw_object
WHERE
    state = 'registered'
    AND signal = %(signal)s
    AND org_id = %(org)s
    AND arrival_hour_ns BETWEEN %(from_hour_ns)s AND %(to_hour_ns)s
ORDER BY object_id;

-- name: batched_in_hours
SELECT count(*) AS objects
FROM lakerunner.raw_object
WHERE
    state = 'batched'
    AND signal = %(signal)s
    AND org_id = %(org)s
    AND arrival_hour_ns BETWEEN %(from_hour_ns)s AND %(to_hour_ns)s;

-- name: create_batch
-- A token makes the batch born claimed.
INSERT INTO lakerunner.batch
(
    kind, org_id, collector, signal, hour_ns, input_bytes, input_count,
    frequency_ms, state, claim_token, heartbeat_at
)
SELECT
    %(kind)s,
    %(org)s,
    %(collector)s,
    %(signal)s,
    %(hour_ns)s,
    coalesce(sum(size), 0),
    count(*),
    %(frequency_ms)s,
    CASE WHEN %(token)s::text IS NULL THEN 'due' ELSE 'claimed' END,
    %(token)s,
    CASE WHEN %(token)s::text IS NULL THEN NULL ELSE now() END
FROM lakerunner.raw_object
WHERE object_id = any(%(object_ids)s)
RETURNING batch_id, input_count;

-- name: freeze_inputs
INSERT INTO lakerunner.batch_input (batch_id, ordinal, object_id)
SELECT
    %(batch_id)s,
    o.ordinal,
    o.object_id
FROM unnest(%(object_ids)s::bigint[]) WITH ORDINALITY AS o (object_id, ordinal);

-- name: lock_segments
-- Live and of this organisation. Locked, so that of two plans one waits for the other.
SELECT
    s.segment_id,
    s.bytes
FROM lakerunner.segment AS s
WHERE
    s.segment_id = any(%(segment_ids)s)
    AND s.org_id = %(org)s
    AND s.retired_at IS NULL
ORDER BY s.segment_id
FOR UPDATE OF s;

-- name: busy_segments
-- A statement of its own, after the locks: it has to see what whoever held them before has committed.
SELECT DISTINCT i.segment_id
FROM lakerunner.batch_segment AS i
INNER JOIN lakerunner.batch AS b ON i.batch_id = b.batch_id
WHERE i.segment_id = any(%(segment_ids)s) AND b.state = 'claimed';

-- name: freeze_segments
INSERT INTO lakerunner.batch_segment (batch_id, ordinal, segment_id)
SELECT
    %(batch_id)s,
    o.ordinal,
    o.segment_id
FROM unnest(%(segment_ids)s::text[]) WITH ORDINALITY AS o (segment_id, ordinal);

-- name: note_input_bytes
UPDATE lakerunner.batch SET input_bytes = %(bytes)s, input_count = %(count)s
WHERE batch_id = %(batch_id)s;

-- name: mark_batched
UPDATE lakerunner.raw_object SET state = 'batched'
WHERE object_id = any(%(object_ids)s) AND state = 'registered';

-- name: due_batches
SELECT
    batch_id,
    org_id,
    hour_ns,
    attempt,
    requests,
    input_bytes,
    input_count,
    extract(EPOCH FROM now() - greatest(created_at, next_attempt_at))::double precision AS waited_s,
    coalesce(extract(EPOCH FROM now() - requested_at), 'infinity')::double precision AS requested_s
FROM lakerunner.batch
WHERE state = 'due' AND signal = %(signal)s AND kind = %(kind)s AND next_attempt_at <= now()
ORDER BY batch_id;

-- name: note_requested
UPDATE lakerunner.batch SET requests = requests + 1, requested_at = now()
WHERE batch_id = any(%(batch_ids)s);

-- name: claimable
-- Bytes bound a job of large objects; the limit bounds one of many small ones, whose paths all travel with it.
SELECT
    batch_id,
    input_bytes
FROM lakerunner.batch
WHERE state = 'due' AND signal = %(signal)s AND kind = %(kind)s AND next_attempt_at <= now()
ORDER BY batch_id
LIMIT 100
FOR UPDATE SKIP LOCKED;

-- name: claim
UPDATE lakerunner.batch
SET state = 'claimed', claim_token = %(token)s, heartbeat_at = now()
WHERE batch_id = %(batch_id)s AND state = 'due'
RETURNING batch_id, attempt, crashes, kind, org_id, collector, signal, hour_ns;

-- name: inputs
SELECT
    o.object_id,
    o.bucket,
    o.key,
    o.size,
    o.etag,
    o.tries,
    o.arrival_hour_ns,
    o.collector
FROM lakerunner.batch_input AS i
INNER JOIN lakerunner.raw_object AS o ON i.object_id = o.object_id
WHERE i.batch_id = %(batch_id)s
ORDER BY i.ordinal;

-- name: beat
-- A batch that is being published is locked and needs no beat; waiting for it would let all others lapse.
UPDATE lakerunner.batch SET heartbeat_at = now()
WHERE batch_id IN (
    SELECT batch_id FROM lakerunner.batch
    WHERE claim_token = any(%(tokens)s) AND state = 'claimed'
    FOR UPDATE SKIP LOCKED
);

-- name: release_expired
-- The holder died (one in the middle of its publication did not: its row is locked). Cooking becomes due again; all else is
-- simply over: nothing of it was published, and whoever planned it plans anew.
UPDATE lakerunner.batch
SET
    state = CASE kind WHEN 'cook' THEN 'due' ELSE 'done' END,
    claim_token = NULL,
    heartbeat_at = NULL,
    attempt = attempt + 1,
    error = 'the holder of the claim stopped beating',
    finished_at = CASE WHEN kind <> 'cook' THEN now() END
WHERE batch_id IN (
    SELECT batch_id FROM lakerunner.batch
    WHERE state = 'claimed' AND heartbeat_at < now() - make_interval(secs => %(lease_s)s)
    FOR UPDATE SKIP LOCKED
);

-- name: give_back
UPDATE lakerunner.batch
SET
    state = 'due',
    claim_token = NULL,
    heartbeat_at = NULL,
    attempt = attempt + 1,
    crashes = crashes + %(crashes)s,
    error = %(error)s,
    next_attempt_at = now() + make_interval(secs => %(delay_s)s)
WHERE batch_id = %(batch_id)s AND state = 'claimed' AND claim_token = %(token)s;

-- name: finish
UPDATE lakerunner.batch
SET
    state = %(state)s,
    claim_token = NULL,
    heartbeat_at = NULL,
    error = %(error)s,
    finished_at = now()
WHERE batch_id = %(batch_id)s AND state = 'claimed' AND claim_token = %(token)s;

-- name: park_object
UPDATE lakerunner.raw_object
SET state = 'parked', error = %(error)s
WHERE object_id = %(object_id)s AND state = 'batched';

-- name: retry_parked
UPDATE lakerunner.raw_object
SET state = 'registered', tries = 0, next_try_at = now(), error = NULL
WHERE
    org_id = %(org)s
    AND state = 'parked'
    AND (%(object_ids)s::bigint[] IS NULL OR object_id = any(%(object_ids)s));

-- name: unbatch
UPDATE lakerunner.raw_object SET state = 'registered'
WHERE object_id = any(%(object_ids)s) AND state = 'batched';
