-- some: may it connect
SELECT 1

-- set: the time zone of a report
SET SESSION TIMEZONE TO 'UTC'

-- some: the version
SHOW server_version

-- some: tables to look at
SELECT n.nspname AS schema, c.relname AS name,
CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW'
WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END AS type,
d.description AS description, NULLIF(stat.n_live_tup, 0) AS estimated_row_count
FROM pg_catalog.pg_class AS c
INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid
LEFT JOIN pg_catalog.pg_description AS d ON c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
LEFT JOIN pg_stat_user_tables AS stat ON n.nspname = stat.schemaname AND c.relname = stat.relname
WHERE n.nspname !~ '^information_schema|catalog_history|pg_' AND c.relkind IN ('r', 'p', 'v', 'f', 'm')
AND n.nspname IN ('public') ORDER BY type, schema, name

-- some: rights
WITH table_privileges AS (
SELECT NULL AS role, t.schemaname AS schema, t.objectname AS table,
pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' ||
replace(t.objectname, '"', '""') || '"', 'update') AS update,
pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' ||
replace(t.objectname, '"', '""') || '"', 'select') AS select,
pg_catalog.has_table_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' ||
replace(t.objectname, '"', '""') || '"', 'delete') AS delete
FROM (SELECT schemaname, tablename AS objectname FROM pg_catalog.pg_tables
UNION SELECT schemaname, viewname AS objectname FROM pg_catalog.pg_views
UNION SELECT schemaname, matviewname AS objectname FROM pg_catalog.pg_matviews) t
WHERE t.schemaname !~ '^pg_' AND t.schemaname <> 'information_schema'
AND pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage'))
SELECT t.* FROM table_privileges t WHERE t.select OR t.update OR t.delete

-- some: columns
SELECT "c"."column_name" AS "name",
CASE WHEN "c"."udt_schema" IN ('public', 'pg_catalog') THEN FORMAT('%s', "c"."udt_name")
ELSE FORMAT('"%s"."%s"', "c"."udt_schema", "c"."udt_name") END AS "database-type",
"c"."ordinal_position" - 1 AS "database-position", "c"."table_schema" AS "table-schema",
"c"."table_name" AS "table-name", "pk"."column_name" IS NOT NULL AS "pk?",
COL_DESCRIPTION(CAST(CAST(FORMAT('%I.%I', CAST("c"."table_schema" AS TEXT), CAST("c"."table_name" AS TEXT))
AS REGCLASS) AS OID), "c"."ordinal_position") AS "field-comment",
(("column_default" IS NULL) OR (LOWER("column_default") = 'null')) AND ("is_nullable" = 'NO')
AND NOT ((("column_default" IS NOT NULL) AND ("column_default" LIKE '%nextval(%'))
OR ("is_identity" <> 'NO')) AS "database-required"
FROM "information_schema"."columns" AS "c"
LEFT JOIN (SELECT "tc"."table_schema", "tc"."table_name", "kc"."column_name"
FROM "information_schema"."table_constraints" AS "tc"
INNER JOIN "information_schema"."key_column_usage" AS "kc" ON ("tc"."constraint_name" = "kc"."constraint_name")
AND ("tc"."table_schema" = "kc"."table_schema") AND ("tc"."table_name" = "kc"."table_name")
WHERE "tc"."constraint_type" = 'PRIMARY KEY') AS "pk"
ON ("c"."table_schema" = "pk"."table_schema") AND ("c"."table_name" = "pk"."table_name")
AND ("c"."column_name" = "pk"."column_name")
WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND ("c"."table_name" IN ('logs'))
UNION ALL
SELECT "pa"."attname" AS "name",
CASE WHEN "ptn"."nspname" IN ('public', 'pg_catalog') THEN FORMAT('%s', "pt"."typname")
ELSE FORMAT('"%s"."%s"', "ptn"."nspname", "pt"."typname") END AS "database-type",
"pa"."attnum" - 1 AS "database-position", "pn"."nspname" AS "table-schema", "pc"."relname" AS "table-name",
FALSE AS "pk?", NULL AS "field-comment", FALSE AS "database-required"
FROM "pg_catalog"."pg_class" AS "pc"
INNER JOIN "pg_catalog"."pg_namespace" AS "pn" ON "pn"."oid" = "pc"."relnamespace"
INNER JOIN "pg_catalog"."pg_attribute" AS "pa" ON "pa"."attrelid" = "pc"."oid"
INNER JOIN "pg_catalog"."pg_type" AS "pt" ON "pt"."oid" = "pa"."atttypid"
INNER JOIN "pg_catalog"."pg_namespace" AS "ptn" ON "ptn"."oid" = "pt"."typnamespace"
WHERE ("pc"."relkind" = 'm') AND ("pa"."attnum" >= 1)
ORDER BY "table-schema" ASC, "table-name" ASC, "database-position" ASC

-- none: first columns of indexes
SELECT tmp."table-schema", tmp."table-name",
TRIM(BOTH '"' FROM pg_catalog.pg_get_indexdef(tmp.ci_oid, tmp.pos, false)) AS "field-name"
FROM (SELECT n.nspname AS "table-schema", ct.relname AS "table-name", ci.oid AS ci_oid,
(information_schema._pg_expandarray(i.indkey)).n AS pos
FROM pg_catalog.pg_class ct
JOIN pg_catalog.pg_namespace n ON (ct.relnamespace = n.oid)
JOIN pg_catalog.pg_index i ON (ct.oid = i.indrelid)
JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid)
WHERE pg_catalog.pg_get_expr(i.indpred, i.indrelid) IS NULL AND n.nspname !~ '^information_schema|catalog_history|pg_') tmp
WHERE tmp.pos = 1

-- none: foreign keys
SELECT fk_ns.nspname AS "fk-table-schema", fk_table.relname AS "fk-table-name", fk_column.attname AS "fk-column-name",
pk_ns.nspname AS "pk-table-schema", pk_table.relname AS "pk-table-name", pk_column.attname AS "pk-column-name"
FROM pg_constraint c
JOIN pg_class fk_table ON c.conrelid = fk_table.oid
JOIN pg_namespace fk_ns ON c.connamespace = fk_ns.oid
JOIN pg_attribute fk_column ON c.conrelid = fk_column.attrelid
JOIN pg_class pk_table ON c.confrelid = pk_table.oid
JOIN pg_namespace pk_ns ON pk_table.relnamespace = pk_ns.oid
JOIN pg_attribute pk_column ON c.confrelid = pk_column.attrelid
WHERE fk_ns.nspname !~ '^information_schema|catalog_history|pg_' AND c.contype = 'f'::char
AND fk_column.attnum = ANY(c.conkey) AND pk_column.attnum = ANY(c.confkey)
ORDER BY "fk-table-schema", "fk-table-name"

-- none: values of enums
SELECT nspname, typname, enumlabel FROM pg_catalog.pg_type t
JOIN pg_catalog.pg_enum e ON t.oid = e.enumtypid
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace ORDER BY enumsortorder

-- none: may a table be read
SELECT TRUE AS "_" FROM "public"."logs" WHERE 1 <> 1 LIMIT 0

-- some: the first rows of a table
SELECT "public"."logs"."timestamp" AS "timestamp", "public"."logs"."severity" AS "severity",
SUBSTRING("public"."logs"."message", 1, 1234) AS "substring1"
FROM "public"."logs"
WHERE "public"."logs"."timestamp" >= timestamp '2026-01-01 00:00:00'
AND "public"."logs"."timestamp" < timestamp '2026-01-01 01:00:00' LIMIT 10000

-- some: counts by minute
SELECT DATE_TRUNC('minute', "public"."logs"."timestamp") AS "timestamp", COUNT(*) AS "count"
FROM "public"."logs"
WHERE ("public"."logs"."timestamp" >= timestamp '2026-01-01 00:00:00')
AND ("public"."logs"."timestamp" < timestamp '2026-01-01 01:00:00')
GROUP BY DATE_TRUNC('minute', "public"."logs"."timestamp")
ORDER BY DATE_TRUNC('minute', "public"."logs"."timestamp") ASC

-- none: the last month by day
SELECT CAST("public"."logs"."timestamp" AS date) AS "timestamp", "public"."logs"."severity" AS "severity",
COUNT(DISTINCT "public"."logs"."service_name") AS "count"
FROM "public"."logs"
WHERE ("public"."logs"."timestamp" >= DATE_TRUNC('day', (NOW() + INTERVAL '-1 day')))
AND ("public"."logs"."timestamp" < DATE_TRUNC('day', NOW()))
AND (LOWER("public"."logs"."message") LIKE '%request%')
GROUP BY CAST("public"."logs"."timestamp" AS date), "public"."logs"."severity"
ORDER BY CAST("public"."logs"."timestamp" AS date) ASC, "public"."logs"."severity" ASC

-- some: a question about the answer of a question
SELECT "source"."severity" AS "severity", SUM("source"."count") AS "sum"
FROM (SELECT "public"."logs"."severity" AS "severity", COUNT(*) AS "count" FROM "public"."logs"
WHERE "public"."logs"."timestamp" BETWEEN timestamp '2026-01-01 00:00:00' AND timestamp '2026-01-01 01:00:00'
GROUP BY "public"."logs"."severity") AS "source"
GROUP BY "source"."severity" ORDER BY "source"."severity" ASC LIMIT 1048575
