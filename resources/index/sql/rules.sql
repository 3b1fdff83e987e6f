-- Rules of organisations and their versions.

-- name: rules
-- One row at least, so that the revision and the rules are of one moment.
SELECT
    coalesce(n.revision, 0) AS revision,
    r.rule_id,
    r.org_id,
    r.kind,
    r.namespace,
    r.name,
    r.version,
    v.document,
    r.created_at,
    v.created_at AS updated_at,
    r.retired
FROM (SELECT %(org)s::text AS org_id) AS o
LEFT JOIN lakerunner.rule_revision AS n ON o.org_id = n.org_id
LEFT JOIN lakerunner.rule AS r ON o.org_id = r.org_id AND NOT r.retired
LEFT JOIN lakerunner.rule_version AS v ON r.rule_id = v.rule_id AND r.version = v.version
ORDER BY r.kind COLLATE "C", r.namespace COLLATE "C", r.name COLLATE "C";

-- name: all_rules
SELECT
    r.rule_id,
    r.org_id,
    r.kind,
    r.namespace,
    r.name,
    r.version,
    v.document,
    r.created_at,
    v.created_at AS updated_at,
    r.retired
FROM lakerunner.rule AS r
INNER JOIN lakerunner.organization AS o ON r.org_id = o.org_id
INNER JOIN lakerunner.rule_version AS v ON r.rule_id = v.rule_id AND r.version = v.version
WHERE o.enabled AND NOT r.retired
ORDER BY r.org_id COLLATE "C", r.kind COLLATE "C", r.namespace COLLATE "C", r.name COLLATE "C";

-- name: rule_versions
SELECT
    r.rule_id,
    r.org_id,
    r.kind,
    r.namespace,
    r.name,
    v.version,
    v.document,
    r.created_at,
    v.created_at AS updated_at,
    v.retired
FROM lakerunner.rule AS r
INNER JOIN lakerunner.rule_version AS v ON r.rule_id = v.rule_id
WHERE r.org_id = %(org)s AND r.rule_id = %(rule_id)s
ORDER BY v.version DESC;

-- name: begin_rules
INSERT INTO lakerunner.rule_revision (org_id) VALUES (%(org)s)
ON CONFLICT (org_id) DO NOTHING;

-- name: lock_rules
SELECT revision FROM lakerunner.rule_revision
WHERE org_id = %(org)s
FOR UPDATE;

-- name: add_rule
INSERT INTO lakerunner.rule (org_id, kind, namespace, name) VALUES (%(org)s, %(kind)s, %(namespace)s, %(name)s)
ON CONFLICT (org_id, kind, namespace, name) DO NOTHING;

-- name: put_rule
-- A rule whose newest version is the same is left alone.
WITH
changed AS (
    UPDATE lakerunner.rule AS r SET version = r.version + 1, retired = FALSE
    WHERE
        r.org_id = %(org)s AND r.kind = %(kind)s AND r.namespace = %(namespace)s AND r.name = %(name)s
        AND NOT EXISTS (
            SELECT 1 FROM lakerunner.rule_version AS v
            WHERE
                v.rule_id = r.rule_id AND v.version = r.version
                AND NOT r.retired AND v.document = %(document)s::jsonb
        )
    RETURNING r.rule_id, r.version
)

INSERT INTO lakerunner.rule_version (rule_id, version, document)
SELECT
    rule_id,
    version,
    %(document)s::jsonb
FROM changed;

-- name: drop_rule
WITH
changed AS (
    UPDATE lakerunner.rule SET version = version + 1, retired = TRUE
    WHERE
        org_id = %(org)s AND kind = %(kind)s AND namespace = %(namespace)s AND name = %(name)s
        AND NOT retired
    RETURNING rule_id, version
)

INSERT INTO lakerunner.rule_version (rule_id, version, document, retired)
SELECT
    c.rule_id,
    c.version,
    v.document,
    TRUE
FROM changed AS c
INNER JOIN lakerunner.rule_version AS v ON c.rule_id = v.rule_id AND v.version = c.version - 1;

-- name: advance_rules
UPDATE lakerunner.rule_revision SET revision = revision + 1
WHERE org_id = %(org)s;

-- name: mark_hours_of_rule
-- Hours from `since` on, and those that it was derived for: they hold samples of another version.
INSERT INTO lakerunner.partition AS p (org_id, signal, frequency_ms, start_ns, due_since)
SELECT
    %(org)s,
    %(signal)s,
    %(derived_ms)s,
    h.start_ns,
    now()
FROM (
    SELECT start_ns FROM lakerunner.partition
    WHERE
        org_id = %(org)s
        AND signal = %(signal)s
        AND frequency_ms = 0
        AND start_ns > %(since_ns)s - 3600000000000
        AND sent_version > 0
        AND expired_at IS NULL
    UNION
    SELECT hour_ns AS start_ns FROM lakerunner.rule_hour
    WHERE org_id = %(org)s AND signal = %(signal)s AND rule_id = %(rule_id)s
) AS h
ORDER BY h.start_ns
ON CONFLICT (org_id, signal, frequency_ms, start_ns) DO UPDATE
    SET due_since = coalesce(p.due_since, now());
