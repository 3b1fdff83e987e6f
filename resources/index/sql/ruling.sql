-- Groups of alert rules, their owners, and notifications.

-- name: beat_ruler
INSERT INTO lakerunner.ruler_process (owner, lease_until)
VALUES (%(owner)s, now() + make_interval(secs => %(lease_s)s))
ON CONFLICT (owner) DO UPDATE SET lease_until = excluded.lease_until;

-- name: forget_rulers
DELETE FROM lakerunner.ruler_process
WHERE lease_until < now() - interval '1 hour';

-- name: withdraw_ruler
DELETE FROM lakerunner.ruler_process
WHERE owner = %(owner)s;

-- name: live_rulers
SELECT owner FROM lakerunner.ruler_process
WHERE lease_until > now()
ORDER BY owner;

-- name: add_ruler_groups
INSERT INTO lakerunner.ruler_group (rule_id, org_id)
SELECT
    wanted.rule_id,
    wanted.org_id
FROM unnest(%(rules)s::bigint[], %(orgs)s::text[]) AS wanted (rule_id, org_id)
ON CONFLICT (rule_id) DO NOTHING;

-- A process that began to live after the claim's snapshot would be taken for a dead one: none begins until it ends.

-- name: hold_rulers
LOCK TABLE lakerunner.ruler_process IN SHARE MODE;

-- Only what nobody holds is claimed; rows are locked in order, so that two processes do not wait for each other.

-- name: claim_ruler_groups
UPDATE lakerunner.ruler_group
SET owner = %(owner)s, token = token + 1, changed_at = now()
WHERE
    rule_id IN (
        SELECT free.rule_id FROM lakerunner.ruler_group AS free
        WHERE
            free.rule_id = any(%(rules)s)
            AND NOT EXISTS (
                SELECT 1 FROM lakerunner.ruler_process AS other
                WHERE other.owner = free.owner AND other.owner <> %(owner)s AND other.lease_until > now()
            )
        ORDER BY free.rule_id
        FOR UPDATE OF free SKIP LOCKED
    )
RETURNING
    rule_id,
    org_id,
    owner,
    token,
    version,
    evaluated_ms,
    coalesce(extract(EPOCH FROM finished_at), 0)::float8 AS finished_s,
    duration_s,
    delay_s,
    missed,
    error,
    state,
    checked_ms;

-- name: release_ruler_groups
UPDATE lakerunner.ruler_group
SET owner = ''
WHERE owner = %(owner)s AND rule_id = any(%(rules)s);

-- name: write_evaluation
UPDATE lakerunner.ruler_group
SET
    version = %(version)s, evaluated_ms = %(evaluated_ms)s, finished_at = now(), duration_s = %(duration_s)s,
    delay_s = %(delay_s)s, missed = %(missed)s, error = %(error)s, state = %(state)s, changed_at = now()
WHERE rule_id = %(rule_id)s AND owner = %(owner)s AND token = %(token)s;

-- name: add_alert_changes
INSERT INTO lakerunner.alert_change (org_id, rule_id, alert, labels, state, value, at_ms)
SELECT
    %(org)s,
    %(rule_id)s,
    change.alert,
    change.labels,
    change.state,
    change.value,
    change.at_ms
FROM jsonb_to_recordset(%(changes)s)
    AS change (alert text, labels jsonb, state text, value text, at_ms bigint);

-- name: add_alert_notices
INSERT INTO lakerunner.alert_notice AS waiting (receiver, identity, org_id, body)
SELECT
    notice.receiver,
    notice.identity,
    %(org)s,
    notice.body
FROM jsonb_to_recordset(%(notices)s) AS notice (receiver text, identity text, body jsonb)
ON CONFLICT (receiver, identity) DO UPDATE SET body = excluded.body, revision = waiting.revision + 1;

-- name: ruler_groups
SELECT
    rule_id,
    org_id,
    owner,
    token,
    version,
    evaluated_ms,
    coalesce(extract(EPOCH FROM finished_at), 0)::float8 AS finished_s,
    duration_s,
    delay_s,
    missed,
    error,
    state,
    checked_ms
FROM lakerunner.ruler_group
WHERE org_id = %(org)s
ORDER BY rule_id;

-- name: alert_changes
SELECT
    rule_id,
    alert,
    labels,
    state,
    value,
    at_ms
FROM lakerunner.alert_change
WHERE org_id = %(org)s AND at_ms BETWEEN %(from_ms)s AND %(to_ms)s
ORDER BY at_ms DESC, change_id DESC
LIMIT %(limit)s;

-- name: lock_receiver
SELECT pg_try_advisory_xact_lock(hashtextextended('lakerunner.alert_notice ' || %(receiver)s, 0)) AS locked;

-- name: claim_alert_notices
UPDATE lakerunner.alert_notice
SET busy_until = now() + make_interval(secs => %(lease_s)s), attempts = attempts + 1
WHERE
    notice_id IN (
        SELECT waiting.notice_id FROM lakerunner.alert_notice AS waiting
        WHERE
            waiting.receiver = %(receiver)s
            AND NOT EXISTS (
                SELECT 1 FROM lakerunner.alert_notice AS busy
                WHERE busy.receiver = %(receiver)s AND busy.busy_until > now()
            )
        ORDER BY waiting.notice_id
        LIMIT %(most)s
    )
RETURNING notice_id, revision, org_id, body, attempts;

-- name: finish_alert_notices
DELETE FROM lakerunner.alert_notice AS sent
USING unnest(%(ids)s::bigint[], %(revisions)s::integer[]) AS done (notice_id, revision)
WHERE sent.notice_id = done.notice_id AND sent.revision = done.revision;

-- name: free_alert_notices
UPDATE lakerunner.alert_notice
SET busy_until = now() + make_interval(secs => %(delay_s)s), error = %(error)s
WHERE notice_id = any(%(ids)s);

-- name: waiting_notices
SELECT
    receiver,
    count(*) AS waiting,
    extract(EPOCH FROM now() - min(created_at))::float8 AS oldest_s,
    max(attempts) AS attempts,
    (array_agg(error ORDER BY busy_until DESC))[1] AS error
FROM lakerunner.alert_notice
WHERE %(org)s = '' OR org_id = %(org)s
GROUP BY receiver
ORDER BY receiver;

-- name: forget_alert_notices
DELETE FROM lakerunner.alert_notice
WHERE created_at < now() - make_interval(secs => %(notice_s)s);

-- name: forget_alert_changes
DELETE FROM lakerunner.alert_change
WHERE at_ms < (extract(EPOCH FROM now()) - %(change_s)s) * 1000;

-- name: forget_ruler_groups
DELETE FROM lakerunner.ruler_group
WHERE changed_at < now() - make_interval(secs => %(group_s)s) AND rule_id <> all(%(live)s);

-- The oldest arrival that queries do not see yet, or whose hour is due to be derived again. An object that failed once
-- is not waited for: it may never be readable.

-- name: arrival_freshness
WITH due AS (
    SELECT
        org_id,
        min(due_since) AS since
    FROM lakerunner.partition
    WHERE
        org_id = any(%(orgs)s)
        AND signal IN ('logs', 'metrics', 'traces')
        AND frequency_ms = %(derived_ms)s
        AND start_ns >= (extract(EPOCH FROM now()) - 7200) * 1000000000
        AND due_since IS NOT NULL
    GROUP BY org_id
),

unseen AS (
    SELECT
        org_id,
        registered_at AS since,
        TRUE AS is_arrival
    FROM lakerunner.raw_object
    WHERE
        org_id = any(%(orgs)s)
        AND signal IN ('logs', 'metrics', 'traces')
        AND arrival_hour_ns >= (extract(EPOCH FROM now()) - 7200) * 1000000000
        AND state IN ('registered', 'batched')
        AND tries = 0
        AND collector <> %(ruler)s
        AND registered_at > now() - make_interval(secs => %(window_s)s)
    UNION ALL
    SELECT
        o.org_id,
        o.registered_at AS since,
        FALSE AS is_arrival
    FROM lakerunner.raw_object AS o
    INNER JOIN due AS d ON o.org_id = d.org_id
    WHERE
        o.signal IN ('logs', 'metrics', 'traces')
        AND o.arrival_hour_ns >= (extract(EPOCH FROM now()) - 7200) * 1000000000
        AND o.state = 'done'
        AND o.collector <> %(ruler)s
        AND o.done_at >= d.since
        AND o.registered_at > now() - make_interval(secs => %(window_s)s)
    UNION ALL
    SELECT
        org_id,
        since,
        FALSE AS is_arrival
    FROM due
)

SELECT
    org_id AS org,
    coalesce(extract(EPOCH FROM now() - min(since) FILTER (WHERE is_arrival)), 0)::float8 AS seconds,
    extract(EPOCH FROM now() - min(since))::float8 AS derived_s
FROM unseen
GROUP BY org_id
ORDER BY org_id;

-- name: add_alert_samples
INSERT INTO lakerunner.alert_samples (org_id, samples)
VALUES (%(org)s, %(samples)s);

-- One process at a time seals.

-- name: lock_samples
SELECT pg_try_advisory_xact_lock(hashtextextended('lakerunner.alert_samples', 0)) AS locked;

-- name: seal_again
UPDATE lakerunner.alert_samples
SET busy_until = now() + make_interval(secs => %(lease_s)s)
WHERE
    seal = (
        SELECT waiting.seal FROM lakerunner.alert_samples AS waiting
        WHERE waiting.seal IS NOT NULL AND waiting.busy_until <= now()
        ORDER BY waiting.sample_id
        LIMIT 1
    )
RETURNING sample_id, org_id, seal, (extract(EPOCH FROM sealed_at) * 1e9)::bigint AS sealed_ns, samples;

-- name: seal_samples
UPDATE lakerunner.alert_samples
SET seal = %(seal)s, sealed_at = now(), busy_until = now() + make_interval(secs => %(lease_s)s)
WHERE
    sample_id IN (
        SELECT waiting.sample_id FROM lakerunner.alert_samples AS waiting
        WHERE
            waiting.seal IS NULL
            AND waiting.org_id = (
                SELECT oldest.org_id FROM lakerunner.alert_samples AS oldest
                WHERE
                    oldest.seal IS NULL
                    AND oldest.created_at <= now() - make_interval(secs => %(age_s)s)
                ORDER BY oldest.sample_id
                LIMIT 1
            )
        ORDER BY waiting.sample_id
        LIMIT %(most)s
    )
RETURNING sample_id, org_id, seal, (extract(EPOCH FROM sealed_at) * 1e9)::bigint AS sealed_ns, samples;

-- name: delete_samples
DELETE FROM lakerunner.alert_samples
WHERE seal = %(seal)s;

-- name: forget_samples
DELETE FROM lakerunner.alert_samples
WHERE created_at < now() - make_interval(secs => %(age_s)s);

-- Records that nobody evaluates alerts over cost no row.

-- name: add_alert_input
INSERT INTO lakerunner.alert_input (org_id, signal, min_ns, max_ns, metric_names)
SELECT
    %(org)s,
    %(signal)s,
    %(min_ns)s,
    %(max_ns)s,
    %(metric_names)s::text[]
FROM lakerunner.organization AS o
WHERE
    o.org_id = %(org)s
    AND o.org_id IN (SELECT g.org_id FROM lakerunner.ruler_group AS g);

-- name: changed_inputs
SELECT
    input_id,
    signal,
    min_ns,
    max_ns,
    metric_names,
    (extract(EPOCH FROM published_at) * 1000)::bigint AS published_ms
FROM lakerunner.alert_input
WHERE
    org_id = %(org)s
    AND published_at > to_timestamp(%(after_ms)s / 1000.0)
    AND published_at <= now() - make_interval(secs => %(settled_s)s)
ORDER BY published_at, input_id
LIMIT %(most)s;

-- name: forget_inputs
DELETE FROM lakerunner.alert_input
WHERE published_at < now() - make_interval(secs => %(group_s)s);

-- name: changes_of_rule
SELECT
    rule_id,
    alert,
    labels,
    state,
    value,
    at_ms
FROM lakerunner.alert_change
WHERE rule_id = %(rule_id)s AND at_ms BETWEEN %(from_ms)s AND %(to_ms)s
UNION ALL
(
    SELECT DISTINCT ON (alert, labels)
        rule_id,
        alert,
        labels,
        state,
        value,
        at_ms
    FROM lakerunner.alert_change
    WHERE rule_id = %(rule_id)s AND at_ms < %(from_ms)s
    ORDER BY alert ASC, labels ASC, at_ms DESC, change_id DESC
)
ORDER BY at_ms;

-- name: corrections_of_rule
SELECT
    rule_id,
    alert,
    labels,
    verdict,
    from_ms,
    to_ms,
    value,
    found_ms
FROM lakerunner.alert_correction
WHERE rule_id = %(rule_id)s AND from_ms <= %(to_ms)s AND to_ms >= %(from_ms)s
ORDER BY from_ms, correction_id;

-- name: alert_corrections
SELECT
    rule_id,
    alert,
    labels,
    verdict,
    from_ms,
    to_ms,
    value,
    found_ms
FROM lakerunner.alert_correction
WHERE org_id = %(org)s AND from_ms <= %(to_ms)s AND to_ms >= %(from_ms)s
ORDER BY to_ms DESC, correction_id DESC
LIMIT %(limit)s;

-- name: note_check
UPDATE lakerunner.ruler_group
SET checked_ms = %(checked_ms)s
WHERE rule_id = %(rule_id)s AND owner = %(owner)s AND token = %(token)s;

-- name: drop_corrections
DELETE FROM lakerunner.alert_correction
WHERE rule_id = %(rule_id)s AND from_ms <= %(to_ms)s AND to_ms >= %(from_ms)s;

-- name: add_corrections
INSERT INTO lakerunner.alert_correction
(org_id, rule_id, alert, labels, verdict, from_ms, to_ms, value, found_ms)
SELECT
    %(org)s,
    %(rule_id)s,
    c.alert,
    c.labels,
    c.verdict,
    c.from_ms,
    c.to_ms,
    c.value,
    c.found_ms
FROM jsonb_to_recordset(%(found)s)
    AS c (alert text, labels jsonb, verdict text, from_ms bigint, to_ms bigint, value text, found_ms bigint);

-- name: forget_corrections
DELETE FROM lakerunner.alert_correction
WHERE to_ms < (extract(EPOCH FROM now()) - %(change_s)s) * 1000;

-- name: note_recorded_rule
INSERT INTO lakerunner.recorded_rule AS known (org_id, rule_group, record, hour_ns, error)
VALUES (%(org)s, %(rule_group)s, %(record)s, %(hour_ns)s, %(error)s)
ON CONFLICT (org_id, rule_group, record) DO UPDATE
    SET hour_ns = excluded.hour_ns, error = excluded.error, recorded_at = now()
    WHERE known.hour_ns <= excluded.hour_ns;

-- name: recorded_rules
SELECT
    rule_group,
    record,
    hour_ns,
    error,
    (extract(EPOCH FROM recorded_at) * 1000)::bigint AS at_ms
FROM lakerunner.recorded_rule
WHERE org_id = %(org)s
ORDER BY rule_group, record;

-- name: recorded_behind
SELECT coalesce(max(extract(EPOCH FROM now() - due_since)), 0)::float8 AS behind_s
FROM lakerunner.partition
WHERE
    org_id = %(org)s
    AND signal = 'metrics'
    AND frequency_ms = %(frequency_ms)s
    AND due_since IS NOT NULL
    AND expired_at IS NULL;
