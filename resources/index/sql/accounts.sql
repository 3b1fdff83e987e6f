-- Organisations, keys and buckets.

-- name: find_api_key
SELECT
    k.org_id,
    k.role,
    k.name
FROM lakerunner.api_key AS k
INNER JOIN lakerunner.organization AS o ON k.org_id = o.org_id
WHERE
    k.key_hash = %(key_hash)s
    AND k.revoked_at IS NULL
    AND (k.expires_at IS NULL OR k.expires_at > now())
    AND o.enabled;

-- name: organisations
SELECT org_id FROM lakerunner.organization
WHERE enabled
ORDER BY org_id;

-- name: create_organisation
-- xmax = 0 only for a row that this statement inserted.
INSERT INTO lakerunner.organization AS o (org_id) VALUES (%(org)s)
ON CONFLICT (org_id) DO UPDATE SET enabled = TRUE
RETURNING (o.xmax = 0) AS is_new;

-- name: create_api_key
INSERT INTO lakerunner.api_key (key_hash, org_id, role, name, expires_at)
VALUES (%(key_hash)s, %(org)s, %(role)s, %(name)s, %(expires_at)s);

-- name: revoke_api_key
UPDATE lakerunner.api_key SET revoked_at = now()
WHERE org_id = %(org)s AND name = %(name)s AND revoked_at IS NULL;

-- name: storage_profiles
SELECT
    bucket,
    url,
    credentials_ref
FROM lakerunner.storage_profile;

-- name: put_storage_profile
INSERT INTO lakerunner.storage_profile (bucket, url, credentials_ref)
VALUES (%(bucket)s, %(url)s, %(credentials_ref)s)
ON CONFLICT (bucket) DO UPDATE
    SET url = excluded.url, credentials_ref = excluded.credentials_ref;

-- name: prefix_mappings
SELECT
    bucket,
    prefix,
    org_id,
    collector,
    signal
FROM lakerunner.bucket_prefix_mapping;

-- name: put_prefix_mapping
INSERT INTO lakerunner.bucket_prefix_mapping (bucket, prefix, org_id, collector, signal)
VALUES (%(bucket)s, %(prefix)s, %(org)s, %(collector)s, %(signal)s)
ON CONFLICT (bucket, prefix) DO UPDATE
    SET org_id = excluded.org_id, collector = excluded.collector, signal = excluded.signal;

-- name: org_options
SELECT
    org_id,
    jsonb_object_agg(name, value) AS settings
FROM lakerunner.org_setting
GROUP BY org_id;

-- name: org_settings
SELECT
    name,
    value
FROM lakerunner.org_setting
WHERE org_id = %(org)s
ORDER BY name;

-- name: put_org_setting
INSERT INTO lakerunner.org_setting (org_id, name, value)
VALUES (%(org)s, %(name)s, %(value)s)
ON CONFLICT (org_id, name) DO UPDATE SET value = excluded.value, updated_at = now();

-- name: delete_org_setting
DELETE FROM lakerunner.org_setting
WHERE org_id = %(org)s AND name = %(name)s;

-- name: forget_metadata
DELETE FROM lakerunner.metric_metadata
WHERE org_id = %(org)s AND seen_at < now() - make_interval(secs => %(keep_s)s);

-- name: refresh_metadata
UPDATE lakerunner.metric_metadata AS m SET seen_at = now()
FROM
    unnest(%(families)s::text[], %(types)s::text[], %(units)s::text[], %(helps)s::text[])
        AS t (family, type, unit, help)
WHERE
    m.org_id = %(org)s
    AND (m.family, m.type, m.unit, m.help) = (t.family, t.type, t.unit, t.help);

-- name: add_metadata
-- The oldest stay when an organisation is at its limit: what is listed must not change from hour to hour.
INSERT INTO lakerunner.metric_metadata (org_id, family, type, unit, help)
SELECT
    %(org)s,
    t.family,
    t.type,
    t.unit,
    t.help
FROM
    unnest(%(families)s::text[], %(types)s::text[], %(units)s::text[], %(helps)s::text[])
        AS t (family, type, unit, help)
WHERE
    NOT EXISTS (
        SELECT 1 FROM lakerunner.metric_metadata AS m
        WHERE
            m.org_id = %(org)s
            AND (m.family, m.type, m.unit, m.help) = (t.family, t.type, t.unit, t.help)
    )
ORDER BY t.family ASC, t.type ASC, t.unit ASC, t.help ASC
LIMIT
    greatest(
        0, %(most)s - (
            SELECT count(*) FROM lakerunner.metric_metadata
            WHERE org_id = %(org)s
        )
    )
ON CONFLICT DO NOTHING;

-- name: metric_metadata
SELECT
    family,
    type,
    unit,
    help
FROM lakerunner.metric_metadata
WHERE
    org_id = %(org)s
    AND seen_at >= %(since)s
    AND (%(families)s::text[] IS NULL OR family = any(%(families)s::text[]))
ORDER BY family COLLATE "C", type COLLATE "C", unit COLLATE "C", help COLLATE "C";
