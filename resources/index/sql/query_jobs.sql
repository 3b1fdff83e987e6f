-- Statements that were handed over to Spark.

-- name: add_query_job
INSERT INTO lakerunner.query_job (job_id, org_id, statement, expires_at)
SELECT
    %(job_id)s,
    %(org)s,
    %(statement)s,
    now() + make_interval(secs => %(keep_s)s)
WHERE (
    SELECT count(*) FROM lakerunner.query_job
    WHERE org_id = %(org)s AND state IN ('due', 'running')
) < %(most)s;

-- name: query_job
SELECT
    job_id,
    org_id,
    statement,
    state,
    attempt,
    progress,
    result,
    error,
    error_code,
    extract(EPOCH FROM now() - created_at)::float8 AS age_s,
    greatest(extract(EPOCH FROM now() - CASE state
        WHEN 'due' THEN noticed_at WHEN 'running' THEN lease_until
    END), 0)::float8 AS silent_s,
    extract(EPOCH FROM expires_at - now())::float8 AS expires_s
FROM lakerunner.query_job
WHERE org_id = %(org)s AND job_id = %(job_id)s AND expires_at > now();

-- name: cancel_query_job
UPDATE lakerunner.query_job
SET state = 'cancelled', lease_until = NULL, expires_at = now() + make_interval(secs => %(keep_s)s)
WHERE org_id = %(org)s AND job_id = %(job_id)s AND state IN ('due', 'running');

-- Every look of a driver is noted, so that a job that nobody will ever run can say so.

-- name: notice_query_jobs
UPDATE lakerunner.query_job SET noticed_at = now()
WHERE state = 'due';

-- name: give_up_query_jobs
UPDATE lakerunner.query_job
SET
    state = 'failed', lease_until = NULL, error_code = 'work_failed',
    error = 'the statement was begun ' || attempt || ' times, and its driver ended each time'
    || CASE WHEN error = '' THEN '' ELSE ': ' || error END
WHERE state = 'running' AND lease_until < now() AND attempt >= %(max_attempts)s;

-- The organisation with the fewest running jobs comes first; among its own, the oldest.

-- name: claim_query_job
UPDATE lakerunner.query_job
SET
    state = 'running', attempt = attempt + 1, progress = '{}',
    lease_until = now() + make_interval(secs => %(lease_s)s),
    expires_at = now() + make_interval(secs => %(keep_s)s)
WHERE
    job_id = (
        SELECT waiting.job_id FROM lakerunner.query_job AS waiting
        WHERE
            (waiting.state = 'due' AND waiting.due_at <= now())
            OR (waiting.state = 'running' AND waiting.lease_until < now())
        ORDER BY (
            SELECT count(*) FROM lakerunner.query_job AS other
            WHERE
                other.org_id = waiting.org_id AND other.state = 'running' AND other.lease_until >= now()
        ), waiting.created_at, waiting.job_id
        LIMIT 1
        FOR UPDATE OF waiting SKIP LOCKED
    )
RETURNING job_id, org_id, statement, state, attempt, error, error_code;

-- name: beat_query_job
UPDATE lakerunner.query_job
SET
    progress = %(progress)s, lease_until = now() + make_interval(secs => %(lease_s)s),
    expires_at = now() + make_interval(secs => %(keep_s)s)
WHERE job_id = %(job_id)s AND attempt = %(attempt)s AND state = 'running';

-- name: finish_query_job
UPDATE lakerunner.query_job
SET
    state = 'done', result = %(result)s, progress = %(progress)s, lease_until = NULL,
    expires_at = now() + make_interval(secs => %(keep_s)s)
WHERE job_id = %(job_id)s AND attempt = %(attempt)s AND state = 'running';

-- name: fail_query_job
UPDATE lakerunner.query_job
SET
    state = 'failed', error = %(error)s, error_code = %(code)s, lease_until = NULL,
    expires_at = now() + make_interval(secs => %(keep_s)s)
WHERE job_id = %(job_id)s AND attempt = %(attempt)s AND state = 'running';

-- name: put_off_query_job
UPDATE lakerunner.query_job
SET
    state = CASE WHEN attempt >= %(max_attempts)s THEN 'failed' ELSE 'due' END,
    error = %(error)s, error_code = 'work_failed', lease_until = NULL,
    due_at = now() + make_interval(secs => %(delay_s)s), noticed_at = now()
WHERE job_id = %(job_id)s AND attempt = %(attempt)s AND state = 'running';

-- name: expired_query_jobs
SELECT
    job_id,
    org_id
FROM lakerunner.query_job
WHERE
    expires_at < now() AND (lease_until IS NULL OR lease_until < now())
    AND (%(org)s = '' OR org_id = %(org)s)
ORDER BY expires_at
LIMIT %(limit)s;

-- name: forget_query_job
DELETE FROM lakerunner.query_job
WHERE job_id = %(job_id)s AND expires_at < now() AND (lease_until IS NULL OR lease_until < now());
