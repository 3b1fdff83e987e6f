-- The whole schema: the sum of all numbered migrations. Read this; apply those.

-- Organisations and who may speak for them.

CREATE SCHEMA IF NOT EXISTS lakerunner;

CREATE TABLE lakerunner.organization (
    org_id text PRIMARY KEY CHECK (org_id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    enabled boolean NOT NULL DEFAULT TRUE,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE lakerunner.api_key (
    key_hash bytea PRIMARY KEY CHECK (octet_length(key_hash) = 32),
    org_id text NOT NULL REFERENCES lakerunner.organization,
    role text NOT NULL CHECK (role IN ('read', 'write', 'admin')),
    name text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz
);
CREATE UNIQUE INDEX api_key_name ON lakerunner.api_key (org_id, name) WHERE revoked_at IS NULL;

-- Where raw objects may lie and whose they are.

CREATE TABLE lakerunner.storage_profile (
    bucket text PRIMARY KEY,
    url text NOT NULL,
    credentials_ref text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE lakerunner.bucket_prefix_mapping (
    bucket text NOT NULL REFERENCES lakerunner.storage_profile,
    prefix text NOT NULL CHECK (prefix <> ''),
    org_id text NOT NULL REFERENCES lakerunner.organization,
    collector text NOT NULL CHECK (collector ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    signal text CHECK (signal IN ('logs', 'metrics', 'traces')),
    PRIMARY KEY (bucket, prefix)
);

-- The raw objects. (bucket, key) is the identity that makes a repeated notification harmless.

CREATE TABLE lakerunner.raw_object (
    object_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bucket text NOT NULL,
    key text NOT NULL,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    collector text NOT NULL,
    signal text NOT NULL CHECK (signal IN ('logs', 'metrics', 'traces')),
    arrival_hour_ns bigint NOT NULL,
    size bigint NOT NULL CHECK (size >= 0),
    etag text NOT NULL DEFAULT '',
    version text NOT NULL DEFAULT '',
    state text NOT NULL DEFAULT 'registered'
    CHECK (state IN ('registered', 'batched', 'done', 'parked')),
    tries integer NOT NULL DEFAULT 0,
    next_try_at timestamptz NOT NULL DEFAULT now(),
    error text,
    overwritten_etag text,
    rows bigint,
    rejected bigint,
    quarantined bigint,
    registered_at timestamptz NOT NULL DEFAULT now(),
    done_at timestamptz,
    expired_at timestamptz,
    UNIQUE (bucket, key)
);
CREATE INDEX raw_object_pending ON lakerunner.raw_object (signal, object_id)
WHERE state = 'registered';
CREATE INDEX raw_object_parked ON lakerunner.raw_object (org_id, object_id)
WHERE state = 'parked' OR overwritten_etag IS NOT NULL;
CREATE INDEX raw_object_arrival ON lakerunner.raw_object (org_id, signal, arrival_hour_ns);
CREATE INDEX raw_object_expirable ON lakerunner.raw_object (org_id, signal, arrival_hour_ns)
WHERE state = 'done' AND expired_at IS NULL;

-- Which event hours hold rows of an object: what a rebuild of an hour must decode again.

CREATE TABLE lakerunner.raw_object_hour (
    object_id bigint NOT NULL REFERENCES lakerunner.raw_object,
    hour_ns bigint NOT NULL,
    rows bigint NOT NULL CHECK (rows > 0),
    org_id text NOT NULL,
    signal text NOT NULL,
    PRIMARY KEY (object_id, hour_ns)
);
CREATE INDEX raw_object_hour_by_hour ON lakerunner.raw_object_hour (org_id, signal, hour_ns);

-- The unit of work. It owns claims, retries and back-off; Dagster's run retries are off.

CREATE TABLE lakerunner.batch (
    batch_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL CHECK (
        kind IN ('cook', 'rebuild', 'compact', 'seal', 'carve', 'rollup', 'materialize', 'record')
    ),
    org_id text NOT NULL REFERENCES lakerunner.organization,
    collector text NOT NULL,
    signal text NOT NULL CHECK (signal IN ('logs', 'metrics', 'traces')),
    hour_ns bigint NOT NULL,
    state text NOT NULL DEFAULT 'due' CHECK (state IN ('due', 'claimed', 'done', 'parked')),
    attempt integer NOT NULL DEFAULT 0,
    requests integer NOT NULL DEFAULT 0,
    requested_at timestamptz,
    crashes integer NOT NULL DEFAULT 0,
    claim_token text,
    heartbeat_at timestamptz,
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    input_bytes bigint NOT NULL,
    input_count integer NOT NULL,
    error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    frequency_ms bigint NOT NULL DEFAULT 0,
    CHECK ((state = 'claimed') = (claim_token IS NOT NULL)),
    CHECK ((state = 'claimed') = (heartbeat_at IS NOT NULL))
);
CREATE INDEX batch_open ON lakerunner.batch (signal, kind, batch_id) WHERE state IN ('due', 'claimed');

CREATE TABLE lakerunner.batch_input (
    batch_id bigint NOT NULL REFERENCES lakerunner.batch ON DELETE CASCADE,
    ordinal integer NOT NULL,
    object_id bigint NOT NULL REFERENCES lakerunner.raw_object,
    PRIMARY KEY (batch_id, ordinal)
);
CREATE INDEX batch_input_object ON lakerunner.batch_input (object_id);

-- The content version of a partition. A rollup is usable only while its inputs still have these versions.

CREATE TABLE lakerunner.partition (
    org_id text NOT NULL REFERENCES lakerunner.organization,
    signal text NOT NULL CHECK (signal IN ('logs', 'metrics', 'traces')),
    frequency_ms bigint NOT NULL CHECK (frequency_ms >= 0),
    start_ns bigint NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    built_from jsonb NOT NULL DEFAULT '{}',
    updated_at timestamptz NOT NULL DEFAULT now(),
    due_since timestamptz,
    expired_at timestamptz,
    -- Counts what was sent alone: metrics that are derived from metrics must not make themselves due.
    sent_version bigint NOT NULL DEFAULT 0,
    -- `sent_version` after the newest publication that replaced records instead of adding some.
    rewritten_version bigint NOT NULL DEFAULT 0,
    -- Raw objects whose records the derivation of an hour counted, and what derived it; empty: not known.
    built_objects bigint[] NOT NULL DEFAULT '{}',
    built_by text NOT NULL DEFAULT '',
    PRIMARY KEY (org_id, signal, frequency_ms, start_ns)
);
-- A partition is due when what it is built from changed; the first such change is remembered.
CREATE INDEX partition_due ON lakerunner.partition (signal, frequency_ms, org_id, start_ns)
WHERE due_since IS NOT NULL;

-- The segments. Live means retired_at IS NULL.

CREATE TABLE lakerunner.segment (
    segment_id text PRIMARY KEY CHECK (segment_id ~ '^[0-9a-f]{32}$'),
    key text NOT NULL UNIQUE,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    collector text NOT NULL,
    signal text NOT NULL CHECK (signal IN ('logs', 'metrics', 'traces')),
    dataset text NOT NULL,
    frequency_ms bigint NOT NULL,
    dateint integer NOT NULL,
    hour smallint,
    hour_ns bigint NOT NULL,
    width_ns bigint NOT NULL,
    min_ns bigint NOT NULL,
    max_ns bigint NOT NULL,
    rows bigint NOT NULL CHECK (rows > 0),
    bytes bigint NOT NULL CHECK (bytes > 0),
    level smallint NOT NULL,
    origin text NOT NULL DEFAULT '',
    format_version smallint NOT NULL,
    sort_version smallint NOT NULL,
    terms bigint[] NOT NULL,
    label_names text[] NOT NULL,
    metric_names text[] NOT NULL,
    series_offset bigint NOT NULL,
    series_length bigint NOT NULL,
    bloom_offset bigint NOT NULL,
    bloom_length bigint NOT NULL,
    batch_id bigint NOT NULL REFERENCES lakerunner.batch,
    published_at timestamptz NOT NULL DEFAULT now(),
    retired_at timestamptz,
    settled boolean NOT NULL DEFAULT FALSE,
    CHECK (min_ns <= max_ns)
);
CREATE INDEX segment_hour ON lakerunner.segment (org_id, signal, frequency_ms, hour_ns)
WHERE retired_at IS NULL;
CREATE INDEX segment_retired ON lakerunner.segment (retired_at) WHERE retired_at IS NOT NULL;
-- A settled segment has nothing to be merged with. Only the others are looked at by the planner.
CREATE INDEX segment_unsettled ON lakerunner.segment (signal, org_id, hour_ns)
WHERE retired_at IS NULL AND NOT settled;

-- Batches of segments: their inputs are frozen like raw objects are.

CREATE TABLE lakerunner.batch_segment (
    batch_id bigint NOT NULL REFERENCES lakerunner.batch ON DELETE CASCADE,
    ordinal integer NOT NULL,
    segment_id text NOT NULL REFERENCES lakerunner.segment ON DELETE CASCADE,
    PRIMARY KEY (batch_id, ordinal)
);
CREATE INDEX batch_segment_segment ON lakerunner.batch_segment (segment_id);

CREATE TABLE lakerunner.segment_source (
    segment_id text NOT NULL REFERENCES lakerunner.segment ON DELETE CASCADE,
    object_id bigint NOT NULL REFERENCES lakerunner.raw_object,
    PRIMARY KEY (segment_id, object_id)
);
CREATE INDEX segment_source_object ON lakerunner.segment_source (object_id);

-- Messages: where reading stands, what could not be used, what is still to be sent.

CREATE TABLE lakerunner.consumed_offset (
    cluster text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    next_offset bigint NOT NULL CHECK (next_offset >= 0),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (cluster, topic, partition)
);

CREATE TABLE lakerunner.dead_letter (
    dead_letter_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    message_offset bigint NOT NULL,
    reason text NOT NULL,
    payload bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE lakerunner.outbox (
    outbox_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text NOT NULL,
    key text NOT NULL,
    payload bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- What runs report: counters that outlive them, heartbeats that end with them.

CREATE TABLE lakerunner.counter (
    name text PRIMARY KEY,
    value double precision NOT NULL
);

CREATE TABLE lakerunner.run_heartbeat (
    run_id text PRIMARY KEY,
    beat_at timestamptz NOT NULL DEFAULT now()
);

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

-- How long things are kept; what has no row is kept for ever.

CREATE TABLE lakerunner.retention (
    org_id text NOT NULL REFERENCES lakerunner.organization,
    signal text NOT NULL CHECK (signal IN ('logs', 'metrics', 'traces')),
    tier text NOT NULL CHECK (tier IN ('raw', 'segments', '10s', '1m', '5m', '1h', '1d')),
    keep_days integer NOT NULL CHECK (keep_days > 0),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, signal, tier),
    CHECK (signal = 'metrics' OR tier IN ('raw', 'segments'))
);

-- Files in the lake that the index does not know, since when.

CREATE TABLE lakerunner.orphan (
    key text PRIMARY KEY,
    org_id text NOT NULL,
    bytes bigint NOT NULL,
    found_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX orphan_found ON lakerunner.orphan (found_at);

-- Batches are forgotten when no segment came from them.

CREATE INDEX segment_batch ON lakerunner.segment (batch_id);

-- What the sweeper looks for.

CREATE INDEX partition_unexpired ON lakerunner.partition (org_id, signal, frequency_ms, start_ns)
WHERE expired_at IS NULL;
CREATE INDEX raw_object_expired ON lakerunner.raw_object (org_id, signal, arrival_hour_ns)
WHERE expired_at IS NOT NULL;

-- What `status` and `/metrics` add up.

CREATE INDEX segment_tier ON lakerunner.segment (org_id, signal, dataset)
INCLUDE (bytes, rows, settled, max_ns) WHERE retired_at IS NULL;

-- Sealed days and months, which may hold an hour without beginning near it.

CREATE INDEX segment_wide ON lakerunner.segment (org_id, signal, frequency_ms, hour_ns)
WHERE retired_at IS NULL AND width_ns > 3600000000000;

-- Type, unit and help of metric families, which remote write 1.0 sends apart from the samples.

CREATE TABLE lakerunner.metric_metadata (
    org_id text NOT NULL REFERENCES lakerunner.organization,
    family text NOT NULL,
    type text NOT NULL,
    unit text NOT NULL,
    help text NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, family, type, unit, help)
);

-- Query workers that register themselves; a row without a recent heartbeat is a worker that is gone.

CREATE TABLE lakerunner.query_worker (
    url text PRIMARY KEY,
    beat_at timestamptz NOT NULL DEFAULT now()
);

-- Nearly all segments span at most an hour: of those only a short run of `max_ns` can overlap an interval. The
-- few wider ones have an index of their own.

CREATE INDEX segment_live_narrow ON lakerunner.segment (org_id, dataset, frequency_ms, max_ns, min_ns)
WHERE retired_at IS NULL AND max_ns - min_ns <= 3600000000000;
CREATE INDEX segment_live_wide ON lakerunner.segment (org_id, dataset, frequency_ms, max_ns, min_ns)
WHERE retired_at IS NULL AND max_ns - min_ns > 3600000000000;

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

-- Hours of a signal that metrics were derived from by rules, as the newest derivation left them. A rule may stand
-- for an hour only while `source_version` is the `sent_version` of the partition that it was derived from.

CREATE TABLE lakerunner.rule_hour (
    org_id text NOT NULL REFERENCES lakerunner.organization,
    signal text NOT NULL CHECK (signal IN ('logs', 'metrics', 'traces')),
    hour_ns bigint NOT NULL,
    rule_id bigint NOT NULL,
    version integer NOT NULL,
    source_version bigint NOT NULL,
    eligible boolean NOT NULL,
    rows bigint NOT NULL CHECK (rows >= 0),
    -- Events that the rule could not count, and all other reasons why it is not eligible.
    errors bigint NOT NULL DEFAULT 0,
    refusals text[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (org_id, signal, hour_ns, rule_id)
);

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

-- Groups of alert rules are spread over `ruler` processes. A group belongs to its owner for as long as the lease of
-- that process lasts; the token of the claim fences off an owner that lost it.

CREATE TABLE lakerunner.ruler_process (
    owner text PRIMARY KEY,
    lease_until timestamptz NOT NULL
);

CREATE TABLE lakerunner.ruler_group (
    rule_id bigint PRIMARY KEY,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    owner text NOT NULL DEFAULT '',
    token bigint NOT NULL DEFAULT 0,
    version integer NOT NULL DEFAULT 0,
    evaluated_ms bigint NOT NULL DEFAULT 0,
    finished_at timestamptz,
    duration_s double precision NOT NULL DEFAULT 0,
    delay_s double precision NOT NULL DEFAULT 0,
    missed bigint NOT NULL DEFAULT 0,
    error text NOT NULL DEFAULT '',
    state jsonb NOT NULL DEFAULT '{}',
    changed_at timestamptz NOT NULL DEFAULT now(),
    -- Time of publication up to which the group looked at changed records.
    checked_ms bigint NOT NULL DEFAULT 0
);
CREATE INDEX ruler_group_org ON lakerunner.ruler_group (org_id);

-- Changes of the states of alerts, for whoever looks back.

CREATE TABLE lakerunner.alert_change (
    change_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    rule_id bigint NOT NULL,
    alert text NOT NULL,
    labels jsonb NOT NULL,
    state text NOT NULL CHECK (state IN ('pending', 'firing', 'inactive')),
    value text NOT NULL,
    at_ms bigint NOT NULL
);
CREATE INDEX alert_change_time ON lakerunner.alert_change (org_id, at_ms);

-- Notifications that a receiver has yet to take. A repeated one replaces the one that still waits; a receiver is
-- sent to by one process at a time, so that what happened later arrives later.

CREATE TABLE lakerunner.alert_notice (
    notice_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    receiver text NOT NULL,
    identity text NOT NULL,
    revision integer NOT NULL DEFAULT 1,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    body jsonb NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    error text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    busy_until timestamptz NOT NULL DEFAULT now(),
    UNIQUE (receiver, identity)
);
CREATE INDEX alert_notice_order ON lakerunner.alert_notice (receiver, notice_id);
CREATE INDEX alert_notice_busy ON lakerunner.alert_notice (receiver, busy_until);

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

-- The series ALERTS and ALERTS_FOR_STATE wait here, written together with the evaluation that made them, until they are
-- in a raw object that is registered. Rows of one object share a seal, which names it: whoever repeats an interrupted
-- write makes the same object again.

CREATE TABLE lakerunner.alert_samples (
    sample_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    samples bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    seal text CHECK (seal ~ '^[0-9a-f]{32}$'),
    sealed_at timestamptz,
    busy_until timestamptz,
    CHECK ((seal IS NULL) = (sealed_at IS NULL) AND (seal IS NULL) = (busy_until IS NULL))
);
CREATE INDEX alert_samples_seal ON lakerunner.alert_samples (seal) WHERE seal IS NOT NULL;

-- Records that were sent, or decoded anew, where alert rules are evaluated: rulers look which of their evaluations came
-- too early for them, and check those again.

CREATE TABLE lakerunner.alert_input (
    input_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    signal text NOT NULL CHECK (signal IN ('logs', 'metrics', 'traces')),
    min_ns bigint NOT NULL,
    max_ns bigint NOT NULL,
    metric_names text[] NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX alert_input_time ON lakerunner.alert_input (org_id, published_at);

-- Alerts that would have fired, or would not have, had all data been there: shown, never sent.

CREATE TABLE lakerunner.alert_correction (
    correction_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    rule_id bigint NOT NULL,
    alert text NOT NULL,
    labels jsonb NOT NULL,
    verdict text NOT NULL CHECK (verdict IN ('would_have_fired', 'would_not_have_fired')),
    from_ms bigint NOT NULL,
    to_ms bigint NOT NULL,
    value text NOT NULL,
    found_ms bigint NOT NULL,
    CHECK (from_ms <= to_ms)
);
CREATE INDEX alert_correction_time ON lakerunner.alert_correction (org_id, to_ms);
CREATE INDEX alert_correction_rule ON lakerunner.alert_correction (rule_id, to_ms);

-- What a rule decided in an interval, and just before it.

CREATE INDEX alert_change_rule ON lakerunner.alert_change (rule_id, at_ms);

-- How each recording rule went in the newest hour that was recorded.

CREATE TABLE lakerunner.recorded_rule (
    org_id text NOT NULL REFERENCES lakerunner.organization,
    rule_group text NOT NULL,
    record text NOT NULL,
    hour_ns bigint NOT NULL,
    error text NOT NULL DEFAULT '',
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, rule_group, record)
);

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

-- A sampler follows one table of spans, decides which traces are kept, and exports them. It belongs to one process for
-- as long as its lease lasts; the token of the claim fences off whatever a process writes that lost it.

CREATE TABLE lakerunner.sampler (
    sampler_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id text NOT NULL REFERENCES lakerunner.organization,
    name text NOT NULL,
    owner text NOT NULL DEFAULT '',
    token bigint NOT NULL DEFAULT 0,
    lease_until timestamptz NOT NULL DEFAULT now(),
    snapshot_id bigint NOT NULL DEFAULT 0,
    sequence bigint NOT NULL DEFAULT 0,
    low_sequence bigint NOT NULL DEFAULT 0,
    watermark_ns bigint NOT NULL DEFAULT 0,
    memory bytea NOT NULL DEFAULT '',
    policies text NOT NULL DEFAULT '',
    changed_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (org_id, name)
);

-- Reasons of decisions, each once: a decision is a row of fixed width that names one.

CREATE TABLE lakerunner.sampling_reason (
    reason_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sampler_id bigint NOT NULL REFERENCES lakerunner.sampler ON DELETE CASCADE,
    policy text NOT NULL,
    reason text NOT NULL,
    policies text NOT NULL,
    UNIQUE (sampler_id, policies, policy, reason)
);

CREATE TABLE lakerunner.sampling_decision (
    sampler_id bigint NOT NULL REFERENCES lakerunner.sampler ON DELETE CASCADE,
    trace_id bytea NOT NULL,
    is_kept boolean NOT NULL,
    reason_id integer NOT NULL,
    probability double precision NOT NULL,
    threshold bigint NOT NULL,
    spans bigint NOT NULL,
    first_ns bigint NOT NULL,
    last_ns bigint NOT NULL,
    first_sequence bigint NOT NULL,
    last_sequence bigint NOT NULL,
    sequence bigint NOT NULL,
    revision integer NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sampler_id, trace_id)
);
CREATE INDEX sampling_decision_order ON lakerunner.sampling_decision (sampler_id, sequence);
CREATE INDEX sampling_decision_kept ON lakerunner.sampling_decision (trace_id) WHERE is_kept;

-- Batches of kept traces that a destination has yet to take. A batch names traces and the commits that hold their
-- spans; the spans stay in the table until they are sent.

CREATE TABLE lakerunner.sampling_batch (
    batch_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sampler_id bigint NOT NULL REFERENCES lakerunner.sampler ON DELETE CASCADE,
    destination text NOT NULL,
    sequence bigint NOT NULL,
    part integer NOT NULL,
    traces integer NOT NULL,
    body bytea NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    error text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    busy_until timestamptz NOT NULL DEFAULT now(),
    UNIQUE (sampler_id, destination, sequence, part)
);
CREATE INDEX sampling_batch_order ON lakerunner.sampling_batch (sampler_id, destination, batch_id);

-- Traces that a destination refuses for good.

CREATE TABLE lakerunner.sampling_dead_letter (
    letter_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sampler_id bigint NOT NULL REFERENCES lakerunner.sampler ON DELETE CASCADE,
    destination text NOT NULL,
    traces integer NOT NULL,
    body bytea NOT NULL,
    error text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX sampling_dead_letter_order ON lakerunner.sampling_dead_letter (sampler_id, created_at);
