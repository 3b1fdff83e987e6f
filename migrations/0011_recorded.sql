-- Recording rules are evaluated over the metrics of an hour: a kind of batch of its own.

ALTER TABLE lakerunner.batch DROP CONSTRAINT batch_kind_check;
ALTER TABLE lakerunner.batch ADD CONSTRAINT batch_kind_check CHECK (
    kind IN ('cook', 'rebuild', 'compact', 'seal', 'carve', 'rollup', 'materialize', 'record')
);
