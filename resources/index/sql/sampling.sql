-- Samplers, their decisions, and what they have yet to export.

-- name: add_sampler
INSERT INTO lakerunner.sampler (org_id, name, lease_until)
VALUES (%(org)s, %(name)s, now() - interval '1 second')
ON CONFLICT (org_id, name) DO NOTHING;

-- name: claim_sampler
UPDATE lakerunner.sampler
SET
    owner = %(owner)s, token = token + 1, lease_until = now() + make_interval(secs => %(lease_s)s),
    changed_at = now()
WHERE org_id = %(org)s AND name = %(name)s AND (owner = %(owner)s OR lease_until <= now())
RETURNING
    sampler_id,
    org_id,
    name,
    owner,
    token,
    snapshot_id,
    sequence,
    low_sequence,
    watermark_ns,
    memory,
    policies;

-- name: beat_sampler
UPDATE lakerunner.sampler
SET lease_until = now() + make_interval(secs => %(lease_s)s)
WHERE sampler_id = %(sampler_id)s AND owner = %(owner)s AND token = %(token)s;

-- name: release_sampler
UPDATE lakerunner.sampler
SET owner = '', lease_until = now()
WHERE sampler_id = %(sampler_id)s AND owner = %(owner)s AND token = %(token)s;

-- name: write_checkpoint
UPDATE lakerunner.sampler
SET
    snapshot_id = %(snapshot_id)s, sequence = %(sequence)s, low_sequence = %(low_sequence)s,
    watermark_ns = %(watermark_ns)s, memory = %(memory)s, policies = %(policies)s, changed_at = now()
WHERE sampler_id = %(sampler_id)s AND owner = %(owner)s AND token = %(token)s;

-- name: add_reasons
INSERT INTO lakerunner.sampling_reason (sampler_id, policy, reason, policies)
SELECT
    %(sampler_id)s,
    wanted.policy,
    wanted.reason,
    %(policies)s
FROM unnest(%(names)s::text[], %(reasons)s::text[]) AS wanted (policy, reason)
WHERE
    NOT EXISTS (
        SELECT 1 FROM lakerunner.sampling_reason AS known
        WHERE
            known.sampler_id = %(sampler_id)s AND known.policies = %(policies)s
            AND known.policy = wanted.policy AND known.reason = wanted.reason
    )
ON CONFLICT (sampler_id, policies, policy, reason) DO NOTHING;

-- name: reasons
SELECT
    reason_id,
    policy,
    reason
FROM lakerunner.sampling_reason
WHERE sampler_id = %(sampler_id)s AND policies = %(policies)s;

-- Decisions that replace older ones are few: traces that grew after they were decided.

-- name: drop_decisions
DELETE FROM lakerunner.sampling_decision
WHERE sampler_id = %(sampler_id)s AND trace_id = any(%(ids)s::bytea[])
RETURNING trace_id, reason_id;

-- name: copy_decisions
COPY lakerunner.sampling_decision (
    sampler_id, trace_id, is_kept, reason_id, probability, threshold, spans, first_ns, last_ns,
    first_sequence, last_sequence, sequence, revision
) FROM STDIN WITH (FORMAT "binary");

-- name: add_batches
INSERT INTO lakerunner.sampling_batch (sampler_id, destination, sequence, part, traces, body)
SELECT
    %(sampler_id)s,
    batch.destination,
    %(sequence)s,
    batch.part,
    batch.traces,
    batch.body
FROM unnest(%(destinations)s::text[], %(parts)s::integer[], %(traces)s::integer[], %(bodies)s::bytea[])
    AS batch (destination, part, traces, body);

-- name: known_decisions
SELECT
    d.trace_id,
    d.is_kept,
    d.probability,
    d.threshold,
    d.spans,
    d.first_ns,
    d.last_ns,
    d.first_sequence,
    d.last_sequence,
    d.sequence,
    d.revision
FROM (SELECT DISTINCT unnest(%(ids)s::bytea[]) AS trace_id) AS wanted
INNER JOIN lakerunner.sampling_decision AS d ON d.sampler_id = %(sampler_id)s AND wanted.trace_id = d.trace_id;

-- name: decided_since
SELECT
    trace_id,
    is_kept,
    probability,
    threshold,
    spans,
    first_ns,
    last_ns,
    first_sequence,
    last_sequence,
    sequence,
    revision
FROM lakerunner.sampling_decision
WHERE sampler_id = %(sampler_id)s AND sequence >= %(sequence)s;

-- name: kept_elsewhere
SELECT DISTINCT d.trace_id
FROM lakerunner.sampling_decision AS d
INNER JOIN lakerunner.sampler AS s ON d.sampler_id = s.sampler_id
WHERE
    d.trace_id = any(%(ids)s::bytea[])
    AND d.is_kept
    AND d.sampler_id <> %(sampler_id)s
    AND s.org_id = %(org)s
    AND d.decided_at > now() - make_interval(secs => %(within_s)s);

-- name: find_decisions
SELECT
    s.name AS sampler,
    d.trace_id,
    d.is_kept,
    r.policy,
    r.reason,
    r.policies,
    d.probability,
    d.threshold,
    d.spans,
    d.first_ns,
    d.last_ns,
    d.first_sequence,
    d.last_sequence,
    d.sequence,
    d.revision,
    extract(EPOCH FROM d.decided_at)::float8 AS decided_s
FROM lakerunner.sampler AS s
INNER JOIN lakerunner.sampling_decision AS d ON s.sampler_id = d.sampler_id
INNER JOIN lakerunner.sampling_reason AS r ON d.reason_id = r.reason_id
WHERE s.org_id = %(org)s AND d.trace_id = %(trace_id)s
ORDER BY s.name;

-- name: claim_batch
UPDATE lakerunner.sampling_batch
SET busy_until = now() + make_interval(secs => %(lease_s)s), attempts = attempts + 1
WHERE
    batch_id = (
        SELECT waiting.batch_id FROM lakerunner.sampling_batch AS waiting
        WHERE
            waiting.sampler_id = %(sampler_id)s
            AND waiting.destination = %(destination)s
            AND waiting.busy_until <= now()
        ORDER BY waiting.batch_id
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    )
RETURNING batch_id, sampler_id, destination, sequence, traces, body, attempts;

-- name: beat_batch
UPDATE lakerunner.sampling_batch
SET busy_until = now() + make_interval(secs => %(lease_s)s)
WHERE batch_id = %(batch_id)s AND attempts = %(attempts)s;

-- name: finish_batch
DELETE FROM lakerunner.sampling_batch
WHERE batch_id = %(batch_id)s AND attempts = %(attempts)s;

-- name: add_dead_letter
INSERT INTO lakerunner.sampling_dead_letter (sampler_id, destination, traces, body, error)
VALUES (%(sampler_id)s, %(destination)s, %(traces)s, %(body)s, %(error)s);

-- name: put_off_batch
UPDATE lakerunner.sampling_batch
SET
    busy_until = now() + make_interval(secs => %(delay_s)s), error = %(error)s, body = %(body)s,
    traces = %(traces)s
WHERE batch_id = %(batch_id)s AND attempts = %(attempts)s;

-- name: waiting_batches
WITH waiting AS (
    SELECT
        sampler_id,
        destination,
        count(*) AS batches,
        sum(traces) AS traces,
        extract(EPOCH FROM now() - min(created_at))::float8 AS oldest_s,
        max(attempts) AS attempts,
        (array_agg(error ORDER BY busy_until DESC))[1] AS error
    FROM lakerunner.sampling_batch
    GROUP BY sampler_id, destination
),

dead AS (
    SELECT
        sampler_id,
        destination,
        sum(traces) AS traces
    FROM lakerunner.sampling_dead_letter
    GROUP BY sampler_id, destination
)

SELECT
    s.name AS sampler,
    coalesce(w.destination, d.destination) AS destination,
    coalesce(w.batches, 0)::bigint AS batches,
    coalesce(w.traces, 0)::bigint AS traces,
    coalesce(w.oldest_s, 0)::float8 AS oldest_s,
    coalesce(w.attempts, 0) AS attempts,
    coalesce(w.error, '') AS error,
    coalesce(d.traces, 0)::bigint AS dead_traces
FROM waiting AS w
FULL JOIN dead AS d ON w.sampler_id = d.sampler_id AND w.destination = d.destination
INNER JOIN lakerunner.sampler AS s ON s.sampler_id = coalesce(w.sampler_id, d.sampler_id)
WHERE s.org_id = %(org)s
ORDER BY s.name, coalesce(w.destination, d.destination);

-- name: dead_traces
SELECT
    l.letter_id,
    s.name AS sampler,
    l.destination,
    l.traces,
    l.error,
    l.body
FROM lakerunner.sampling_dead_letter AS l
INNER JOIN lakerunner.sampler AS s ON l.sampler_id = s.sampler_id
WHERE s.org_id = %(org)s
ORDER BY l.letter_id DESC
LIMIT %(limit)s;

-- A letter that is sent again is a batch of its own: no commit has its negative number.

-- name: retry_dead
WITH letter AS (
    DELETE FROM lakerunner.sampling_dead_letter AS l
    USING lakerunner.sampler AS s
    WHERE l.letter_id = %(letter_id)s AND l.sampler_id = s.sampler_id AND s.org_id = %(org)s
    RETURNING l.sampler_id, l.destination, l.traces, l.body
)

INSERT INTO lakerunner.sampling_batch (sampler_id, destination, sequence, part, traces, body)
SELECT
    sampler_id,
    destination,
    -%(letter_id)s::bigint,
    0,
    traces,
    body
FROM letter;

-- name: forget_decisions
DELETE FROM lakerunner.sampling_decision AS old
USING (
    SELECT
        found.sampler_id,
        found.trace_id
    FROM lakerunner.sampler AS s
    CROSS JOIN
        LATERAL (
            SELECT
                d.sampler_id,
                d.trace_id,
                d.decided_at
            FROM lakerunner.sampling_decision AS d
            WHERE d.sampler_id = s.sampler_id
            ORDER BY d.sequence
            LIMIT %(limit)s
        ) AS found
    WHERE found.decided_at < now() - make_interval(secs => %(keep_s)s)
    ORDER BY found.decided_at
    LIMIT %(limit)s
) AS aged
WHERE old.sampler_id = aged.sampler_id AND old.trace_id = aged.trace_id;

-- name: forget_dead_letters
DELETE FROM lakerunner.sampling_dead_letter
WHERE created_at < now() - make_interval(secs => %(letter_s)s);

-- name: forget_reasons
DELETE FROM lakerunner.sampling_reason AS r
USING lakerunner.sampler AS s
WHERE
    r.sampler_id = s.sampler_id
    AND r.policies <> s.policies
    AND NOT EXISTS (
        SELECT 1 FROM lakerunner.sampling_decision AS d
        WHERE d.sampler_id = r.sampler_id AND d.reason_id = r.reason_id
    );
