-- Tables as which other engines read the segments of an organisation. `version` counts the publications that changed
-- the dataset, `committed` is the version of the newest snapshot in the catalog.

CREATE TABLE lakerunner.open_table (
    table_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    dataset text NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    committed bigint NOT NULL DEFAULT -1,
    changed_at timestamptz DEFAULT now(),
    committed_at timestamptz,
    UNIQUE (org_id, dataset)
);

-- What a snapshot has to add and to remove. A row with `retired` keeps the file of its segment: a snapshot that can
-- still be read may name it.

CREATE TABLE lakerunner.table_change (
    table_id bigint NOT NULL REFERENCES lakerunner.open_table ON DELETE CASCADE,
    version bigint NOT NULL,
    segment_id text NOT NULL,
    retired boolean NOT NULL,
    PRIMARY KEY (table_id, version, segment_id)
);
CREATE INDEX table_change_held ON lakerunner.table_change (segment_id) WHERE retired;

-- Where pyiceberg's SQL catalog makes its tables, unless the settings name another catalog.

CREATE SCHEMA IF NOT EXISTS lakerunner_tables;
