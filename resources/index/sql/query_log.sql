-- Queries that were asked, by organisation and day.

-- name: add_asked
-- Queries that are not known yet take the room that their organisation has left for the day, costly ones first.
WITH
asked AS (
    SELECT
        q.*,
        k.identity IS NOT NULL AS is_known,
        row_number() OVER (
            PARTITION BY q.org, q.day_ns, k.identity IS NULL
            ORDER BY q.seconds DESC, q.identity ASC
        ) AS place
    FROM
        jsonb_to_recordset(%(queries)s::jsonb) AS q (
            org text,
            day_ns bigint,
            identity text,
            language text,
            query text,
            is_aligned boolean,
            asked bigint,
            served bigint,
            seconds double precision,
            read_bytes double precision,
            segments bigint,
            window_s double precision,
            series bigint,
            last_ns bigint
        )
    INNER JOIN lakerunner.organization AS o ON q.org = o.org_id
    LEFT JOIN lakerunner.asked_query AS k
        ON q.org = k.org_id AND q.day_ns = k.day_ns AND q.identity = k.identity
),

room AS (
    SELECT
        org_id,
        day_ns,
        count(*) AS taken
    FROM lakerunner.asked_query
    WHERE org_id IN (SELECT org FROM asked) AND day_ns IN (SELECT day_ns FROM asked)
    GROUP BY org_id, day_ns
)

INSERT INTO lakerunner.asked_query AS k (
    org_id, day_ns, identity, language, query, is_aligned,
    asked, served, seconds, read_bytes, segments, window_s, series, last_ns
)
SELECT
    a.org,
    a.day_ns,
    a.identity,
    a.language,
    a.query,
    a.is_aligned,
    a.asked,
    a.served,
    a.seconds,
    a.read_bytes,
    a.segments,
    a.window_s,
    a.series,
    a.last_ns
FROM asked AS a
LEFT JOIN room AS r ON a.org = r.org_id AND a.day_ns = r.day_ns
WHERE a.is_known OR a.place + coalesce(r.taken, 0) <= %(most)s
ORDER BY a.org, a.day_ns, a.identity
ON CONFLICT (org_id, day_ns, identity) DO UPDATE
    SET
        asked = k.asked + excluded.asked,
        served = k.served + excluded.served,
        seconds = k.seconds + excluded.seconds,
        read_bytes = k.read_bytes + excluded.read_bytes,
        segments = k.segments + excluded.segments,
        window_s = k.window_s + excluded.window_s,
        series = greatest(k.series, excluded.series),
        last_ns = greatest(k.last_ns, excluded.last_ns);

-- name: asked_queries
SELECT
    org_id,
    min(day_ns) AS day_ns,
    language,
    query,
    is_aligned,
    sum(asked)::bigint AS asked,
    sum(served)::bigint AS served,
    sum(seconds) AS seconds,
    sum(read_bytes) AS read_bytes,
    sum(segments)::bigint AS segments,
    sum(window_s) AS window_s,
    max(series) AS series,
    max(last_ns) AS last_ns
FROM lakerunner.asked_query
WHERE org_id = %(org)s AND day_ns >= %(since_ns)s
GROUP BY org_id, identity, language, query, is_aligned
ORDER BY sum(seconds) DESC, identity COLLATE "C" ASC
LIMIT %(most)s;

-- name: forget_asked
DELETE FROM lakerunner.asked_query
WHERE day_ns < %(before_ns)s;
