-- Query workers that register themselves.

-- name: beat_worker
INSERT INTO lakerunner.query_worker (url) VALUES (%(url)s)
ON CONFLICT (url) DO UPDATE SET beat_at = now();

-- name: forget_workers
DELETE FROM lakerunner.query_worker
WHERE beat_at < now() - interval '1 day';

-- name: withdraw_worker
DELETE FROM lakerunner.query_worker
WHERE url = %(url)s;

-- name: live_workers
SELECT url FROM lakerunner.query_worker
WHERE beat_at > now() - make_interval(secs => %(lease_s)s)
ORDER BY url;
