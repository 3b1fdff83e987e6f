-- Statements that were handed over to Spark. The row is the whole state: any process of the query API may answer
-- for it, and any `query-jobs` process may take it over once its lease has ended.

CREATE TABLE lakerunner.query_job (
    job_id text PRIMARY KEY,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    statement text NOT NULL,
    state text NOT NULL DEFAULT 'due' CHECK (state IN ('due', 'running', 'done', 'failed', 'cancelled')),
    attempt integer NOT NULL DEFAULT 0,
    progress jsonb NOT NULL DEFAULT '{}',
    result jsonb,
    error text NOT NULL DEFAULT '',
    error_code text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    noticed_at timestamptz NOT NULL DEFAULT now(),
    due_at timestamptz NOT NULL DEFAULT now(),
    lease_until timestamptz,
    expires_at timestamptz NOT NULL
);
CREATE INDEX query_job_under_way ON lakerunner.query_job (org_id) WHERE state IN ('due', 'running');
CREATE INDEX query_job_expiry ON lakerunner.query_job (expires_at);
