-- Rules of organisations: groups of recording and alert rules, and derived metrics. A name keeps its row for ever, so
-- that a rule which was deleted and came back counts its versions on.

CREATE TABLE lakerunner.rule (
    rule_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    kind text NOT NULL CHECK (kind IN ('group', 'derived')),
    namespace text NOT NULL,
    name text NOT NULL CHECK (name <> ''),
    version integer NOT NULL DEFAULT 0,
    retired boolean NOT NULL DEFAULT FALSE,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (org_id, kind, namespace, name)
);

-- Versions are never edited; the deletion of a rule is one.

CREATE TABLE lakerunner.rule_version (
    rule_id bigint NOT NULL REFERENCES lakerunner.rule,
    version integer NOT NULL,
    document jsonb NOT NULL,
    retired boolean NOT NULL DEFAULT FALSE,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (rule_id, version)
);

-- One number per organisation, which grows with every change of its rules; its row is the lock of a change.

CREATE TABLE lakerunner.rule_revision (
    org_id text PRIMARY KEY REFERENCES lakerunner.organization,
    revision bigint NOT NULL DEFAULT 0
);
