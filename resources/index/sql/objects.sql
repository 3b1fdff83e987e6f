-- What a person asks about raw objects. Read only.

-- name: object_states
SELECT
    key,
    state,
    coalesce(rows, 0)::bigint AS rows,
    coalesce(rejected, 0)::bigint AS rejected,
    coalesce(error, '') AS error
FROM lakerunner.raw_object
WHERE bucket = %(bucket)s AND key = any(%(keys)s);

-- name: object_hours
SELECT
    min(hours.hour_ns) AS first_ns,
    max(hours.hour_ns) AS last_ns
FROM lakerunner.raw_object AS objects
INNER JOIN lakerunner.raw_object_hour AS hours ON objects.object_id = hours.object_id
WHERE objects.bucket = %(bucket)s AND objects.key = any(%(keys)s);

-- name: parked_objects
SELECT
    object_id,
    org_id AS org,
    signal,
    bucket,
    key,
    tries,
    coalesce(error, '') AS error
FROM lakerunner.raw_object
WHERE state = 'parked' AND (%(org)s = '' OR org_id = %(org)s)
ORDER BY object_id
LIMIT %(limit)s;

-- name: newest_queryable
SELECT max(max_ns) AS newest_ns
FROM lakerunner.segment
WHERE org_id = %(org)s AND dataset = %(dataset)s AND retired_at IS NULL;

-- name: objects_with_rejects
SELECT
    object_id,
    org_id AS org,
    signal,
    bucket,
    key,
    rows,
    rejected,
    coalesce(error, '') AS first_error
FROM lakerunner.raw_object
WHERE state = 'done' AND rejected > 0 AND (%(org)s = '' OR org_id = %(org)s)
ORDER BY object_id
LIMIT %(limit)s;
