-- Settings of organisations (naming, field mapping, quotas), and what quotas are judged by.

-- What an organisation chose; names and values are checked by whoever writes.

CREATE TABLE lakerunner.org_setting (
    org_id text NOT NULL REFERENCES lakerunner.organization,
    name text NOT NULL,
    value jsonb NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, name)
);

-- What waits, and what was batched lately: asked at every sensor tick.

CREATE INDEX raw_object_open ON lakerunner.raw_object (signal)
INCLUDE (size) WHERE state IN ('registered', 'batched');
CREATE INDEX batch_created ON lakerunner.batch (created_at);

-- Records that could not be read, for whoever looks for them.

CREATE INDEX raw_object_rejects ON lakerunner.raw_object (org_id, object_id)
WHERE state = 'done' AND rejected > 0;
