-- some: the version
SELECT current_setting('server_version_num')::int/100 AS version

-- none: is TimescaleDB there
SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'

-- some: does it answer
SELECT 1

-- some: tables
SELECT CASE WHEN quote_ident(table_schema) IN (
SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
string_to_array(current_setting('search_path'), ',') s)
THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
FROM information_schema.tables
WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache',
'_timescaledb_catalog', '_timescaledb_internal', '_timescaledb_config', 'timescaledb_information', 'timescaledb_experimental')
ORDER BY CASE WHEN quote_ident(table_schema) IN (
SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
string_to_array(current_setting('search_path'), ',') s) THEN 0 ELSE 1 END, 1

-- some: columns of a table
SELECT quote_ident(column_name) AS "column", data_type AS "type"
FROM information_schema.columns
WHERE CASE WHEN array_length(parse_ident('logs'), 1) = 2
THEN quote_ident(table_schema) = (parse_ident('logs'))[1] AND quote_ident(table_name) = (parse_ident('logs'))[2]
ELSE quote_ident(table_name) = 'logs' AND quote_ident(table_schema) IN (
SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
string_to_array(current_setting('search_path'), ',') s) END

-- some: $__time and $__timeFilter
SELECT timestamp AS "time", message FROM logs
WHERE timestamp BETWEEN '2026-01-01T00:00:00Z' AND '2026-01-01T01:00:00Z' ORDER BY 1 LIMIT 50

-- some: times with parts of a second
SELECT count(*) FROM logs WHERE timestamp BETWEEN '2026-01-01T00:00:00.123Z' AND '2026-01-01T01:00:00.456Z'

-- some: $__timeFrom and $__timeTo
SELECT count(*) FROM logs WHERE timestamp > '2026-01-01T00:00:00Z' AND timestamp <= '2026-01-01T01:00:00Z'

-- some: $__timeGroupAlias
SELECT floor(extract(epoch from timestamp)/300)*300 AS "time", severity AS metric, count(*) AS value
FROM logs WHERE timestamp BETWEEN '2026-01-01T00:00:00Z' AND '2026-01-01T01:00:00Z' GROUP BY 1, 2 ORDER BY 1, 2

-- some: $__timeGroup of the TimescaleDB switch
SELECT time_bucket('300.000s', timestamp) AS "time", count(*) AS value
FROM logs WHERE timestamp BETWEEN '2026-01-01T00:00:00Z' AND '2026-01-01T01:00:00Z' GROUP BY 1 ORDER BY 1

-- some: $__timeEpoch
SELECT extract(epoch from timestamp) AS "time", message FROM logs
WHERE timestamp BETWEEN '2026-01-01T00:00:00Z' AND '2026-01-01T01:00:00Z' LIMIT 5

-- some: $__unixEpochFilter and $__unixEpochGroup
SELECT floor((at)/60)*60 AS "time", count(*) FROM (
SELECT extract(epoch from timestamp) AS at FROM logs WHERE timestamp BETWEEN '2026-01-01' AND '2026-01-01 01:00') AS t
WHERE at >= 1767225600 AND at <= 1767229200 GROUP BY 1 ORDER BY 1

-- some: $__unixEpochNanoFilter
SELECT count(*) AS value FROM logs WHERE tsns >= 1767225600000000000 AND tsns <= 1767229200000000000

-- some: the query builder
SELECT timestamp AS "time", severity, COUNT(message) AS "count" FROM logs
WHERE (timestamp >= '2026-01-01T00:00:00Z' AND severity = 'ERROR') AND timestamp <= '2026-01-01T01:00:00Z'
GROUP BY timestamp, severity LIMIT 50
