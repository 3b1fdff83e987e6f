-- some: who and where
SELECT current_schema(), session_user

-- some: the path of schemas
SHOW search_path

-- some: the kind of server
SELECT version()

-- some: databases
SELECT db.oid, db.* FROM pg_catalog.pg_database db
WHERE datallowconn AND NOT datistemplate OR db.datname = 'lake' ORDER BY db.datname

-- some: one setting
SELECT * FROM pg_catalog.pg_settings WHERE name = 'standard_conforming_strings'

-- some: words of the language
SELECT string_agg(word, ',') FROM pg_catalog.pg_get_keywords() WHERE word <> ALL ('{a,abs,absolute,action}'::text[])

-- some: schemas with their comments
SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n
LEFT OUTER JOIN pg_catalog.pg_description d
ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass ORDER BY nspname

-- some: types
SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type_name, d.description
FROM pg_catalog.pg_type t
LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = t.typelem
LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid = d.objoid
WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c')
AND (et.typcategory IS NULL OR et.typcategory <> 'C')

-- some: tables of a schema
SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr,
pg_catalog.pg_get_partkeydef(c.oid) AS partition_key
FROM pg_catalog.pg_class c
LEFT OUTER JOIN pg_catalog.pg_description d
ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
WHERE c.relnamespace = 2200 AND c.relkind NOT IN ('i', 'I', 'c')

-- some: sizes of tables
SELECT c.oid, pg_catalog.pg_total_relation_size(c.oid) AS total_rel_size, pg_catalog.pg_relation_size(c.oid) AS rel_size
FROM pg_class c WHERE c.relnamespace = 2200

-- some: columns of a table
SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description, dep.objid
FROM pg_catalog.pg_attribute a
INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid)
LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum)
LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid)
LEFT OUTER JOIN pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i'
AND dep.refobjsubid = a.attnum AND dep.classid = dep.refclassid
WHERE NOT a.attisdropped AND c.relname = 'logs' ORDER BY a.attnum

-- none: constraints
SELECT c.oid, c.*, t.relname AS tabrelname, rt.relnamespace AS refnamespace, d.description,
CASE WHEN c.contype = 'c' THEN "substring"(pg_get_constraintdef(c.oid), 7) ELSE NULL END consrc_copy
FROM pg_catalog.pg_constraint c
INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid
LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid = c.confrelid
LEFT OUTER JOIN pg_catalog.pg_description d
ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_constraint'::regclass
WHERE c.conrelid = 16400 ORDER BY c.oid

-- none: indexes
SELECT i.*, i.indkey AS keys, c.relname, c.relnamespace, c.relam, c.reltablespace, tc.relname AS tabrelname,
dsc.description, pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS pred_expr,
pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) AS expr,
pg_catalog.pg_relation_size(i.indexrelid) AS index_rel_size,
pg_catalog.pg_stat_get_numscans(i.indexrelid) AS index_num_scans
FROM pg_catalog.pg_index i
INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
INNER JOIN pg_catalog.pg_class tc ON tc.oid = i.indrelid
LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid = dsc.objoid
WHERE i.indrelid = 16400 ORDER BY tabrelname, c.relname

-- none: triggers
SELECT x.oid, x.*, p.pronamespace AS func_schema_id, d.description
FROM pg_catalog.pg_trigger x
LEFT OUTER JOIN pg_catalog.pg_proc p ON p.oid = x.tgfoid
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = x.oid AND d.objsubid = 0
WHERE x.tgrelid = 16400 AND NOT x.tgisinternal

-- none: parents
SELECT i.*, c.relnamespace FROM pg_catalog.pg_inherits i, pg_catalog.pg_class c
WHERE i.inhrelid = 16400 AND c.oid = i.inhparent ORDER BY i.inhseqno

-- some: roles
SELECT a.oid, a.*, pd.description FROM pg_catalog.pg_roles a
LEFT JOIN pg_catalog.pg_shdescription pd ON a.oid = pd.objoid ORDER BY a.rolname

-- none: functions
SELECT p.oid AS poid, p.*, pg_catalog.pg_get_expr(p.proargdefaults, 0) AS arg_defaults, d.description
FROM pg_catalog.pg_proc p LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = p.oid
WHERE p.pronamespace = 2200 ORDER BY p.proname

-- none: extensions
SELECT e.oid, e.extname, n.nspname, e.extversion FROM pg_catalog.pg_extension e
JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace

-- none: other sessions
SELECT sa.* FROM pg_catalog.pg_stat_activity sa WHERE sa.datname = 'nothing'

-- some: the first rows of a table
SELECT x.* FROM public.logs x WHERE timestamp BETWEEN '2026-01-01' AND '2026-01-01 01:00' LIMIT 200

-- some: rows in order, through a filter
SELECT * FROM public.logs WHERE timestamp BETWEEN '2026-01-01' AND '2026-01-01 01:00' AND severity = 'ERROR'
ORDER BY "timestamp" DESC LIMIT 200

-- some: the number of rows
SELECT count(*) FROM public.logs WHERE timestamp BETWEEN '2026-01-01' AND '2026-01-01 01:00'
