-- Hours that only grew are derived from what was added to them: what each derivation stands for.

-- `sent_version` after the newest publication that replaced records instead of adding some.
ALTER TABLE lakerunner.partition ADD COLUMN rewritten_version bigint NOT NULL DEFAULT 0;
UPDATE lakerunner.partition SET rewritten_version = sent_version;

-- Raw objects whose records the derivation of an hour counted, and what derived it; empty: not known.
ALTER TABLE lakerunner.partition ADD COLUMN built_objects bigint[] NOT NULL DEFAULT '{}';
ALTER TABLE lakerunner.partition ADD COLUMN built_by text NOT NULL DEFAULT '';

-- Events that a rule could not count, and all other reasons why it is not eligible.
ALTER TABLE lakerunner.rule_hour ADD COLUMN errors bigint NOT NULL DEFAULT 0;
ALTER TABLE lakerunner.rule_hour ADD COLUMN refusals text[] NOT NULL DEFAULT '{}';
