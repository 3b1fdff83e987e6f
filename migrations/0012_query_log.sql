-- Queries that derived metrics could serve, counted by day: from them `lakerunner rules suggest` proposes rules.

CREATE TABLE lakerunner.asked_query (
    org_id text NOT NULL REFERENCES lakerunner.organization,
    day_ns bigint NOT NULL,
    identity text NOT NULL,
    language text NOT NULL,
    query text NOT NULL,
    is_aligned boolean NOT NULL,
    asked bigint NOT NULL,
    served bigint NOT NULL,
    seconds double precision NOT NULL,
    read_bytes double precision NOT NULL,
    segments bigint NOT NULL,
    window_s double precision NOT NULL,
    series bigint NOT NULL,
    last_ns bigint NOT NULL,
    PRIMARY KEY (org_id, day_ns, identity)
);
CREATE INDEX asked_query_day ON lakerunner.asked_query (day_ns);
