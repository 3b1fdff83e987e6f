-- Views over lake_columns_now, which is registered per question: the columns of one organisation's tables.

CREATE TEMP VIEW lake_attributes AS
SELECT table_oid AS attrelid, name AS attname, type_oid AS atttypid, -1 AS attstattarget, size AS attlen,
  number AS attnum, 0 AS attndims, -1 AS attcacheoff, -1 AS atttypmod, size BETWEEN 1 AND 8 AS attbyval,
  'i' AS attalign, 'p' AS attstorage, '' AS attcompression, false AS attnotnull, false AS atthasdef,
  false AS atthasmissing, '' AS attidentity, '' AS attgenerated, false AS attisdropped, true AS attislocal,
  0 AS attinhcount, CASE WHEN type_oid = 25 THEN 100 ELSE 0 END AS attcollation, NULL::VARCHAR[] AS attacl,
  NULL::VARCHAR[] AS attoptions, NULL::VARCHAR[] AS attfdwoptions, NULL::VARCHAR AS attmissingval
FROM lake_columns_now;
CREATE TEMP VIEW lake_all_columns AS
SELECT 'lake' AS table_catalog, 'public' AS table_schema, table_name, now.name AS column_name,
  number AS ordinal_position, NULL::VARCHAR AS column_default, 'YES' AS is_nullable, type_names.display AS data_type,
  NULL::INTEGER AS character_maximum_length, NULL::INTEGER AS character_octet_length,
  CASE type_oid WHEN 20 THEN 64 WHEN 23 THEN 32 WHEN 21 THEN 16 WHEN 701 THEN 53 WHEN 700 THEN 24 END
    AS numeric_precision,
  CASE WHEN type_oid IN (20, 21, 23, 700, 701) THEN 2 END AS numeric_precision_radix,
  CASE WHEN type_oid IN (20, 21, 23) THEN 0 END AS numeric_scale,
  CASE WHEN type_oid IN (1114, 1184) THEN 6 END AS datetime_precision, NULL::VARCHAR AS interval_type,
  NULL::INTEGER AS interval_precision, NULL::VARCHAR AS character_set_catalog,
  NULL::VARCHAR AS character_set_schema, NULL::VARCHAR AS character_set_name, NULL::VARCHAR AS collation_catalog,
  NULL::VARCHAR AS collation_schema, NULL::VARCHAR AS collation_name, NULL::VARCHAR AS domain_catalog,
  NULL::VARCHAR AS domain_schema, NULL::VARCHAR AS domain_name, 'lake' AS udt_catalog, 'pg_catalog' AS udt_schema,
  type_names.name AS udt_name, NULL::VARCHAR AS scope_catalog, NULL::VARCHAR AS scope_schema,
  NULL::VARCHAR AS scope_name, NULL::INTEGER AS maximum_cardinality, number::VARCHAR AS dtd_identifier,
  'NO' AS is_self_referencing, 'NO' AS is_identity, NULL::VARCHAR AS identity_generation,
  NULL::VARCHAR AS identity_start, NULL::VARCHAR AS identity_increment, NULL::VARCHAR AS identity_maximum,
  NULL::VARCHAR AS identity_minimum, NULL::VARCHAR AS identity_cycle, 'NEVER' AS is_generated,
  NULL::VARCHAR AS generation_expression, 'NO' AS is_updatable
FROM lake_columns_now AS now JOIN type_names ON type_names.oid = now.type_oid;
