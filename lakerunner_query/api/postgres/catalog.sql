-- What clients ask of pg_catalog and information_schema, as tables of a DuckDB in memory.
-- Columns are those of PostgreSQL 15, whose version this server names; tables that say something are filled
-- below from lake_tables, all others are empty. Columns of the lake's tables depend on the organisation:
-- pg_attribute and information_schema.columns are registered per question (catalog.py), and so are settings.
-- Functions bear the prefix pgf_: a function without a macro here, and not in the list of catalog.py, is refused.

CREATE SCHEMA pg;
CREATE SCHEMA info;

CREATE TABLE info.applicable_roles (grantee VARCHAR, role_name VARCHAR, is_grantable VARCHAR);
CREATE TABLE info.character_sets (character_set_catalog VARCHAR, character_set_schema VARCHAR,
  character_set_name VARCHAR, character_repertoire VARCHAR, form_of_use VARCHAR, default_collate_catalog
  VARCHAR, default_collate_schema VARCHAR, default_collate_name VARCHAR);
CREATE TABLE info.check_constraints (constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name
  VARCHAR, check_clause VARCHAR);
CREATE TABLE info.collations (collation_catalog VARCHAR, collation_schema VARCHAR, collation_name VARCHAR,
  pad_attribute VARCHAR);
CREATE TABLE info.column_privileges (grantor VARCHAR, grantee VARCHAR, table_catalog VARCHAR, table_schema
  VARCHAR, table_name VARCHAR, column_name VARCHAR, privilege_type VARCHAR, is_grantable VARCHAR);
CREATE TABLE info.columns (table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, column_name
  VARCHAR, ordinal_position INTEGER, column_default VARCHAR, is_nullable VARCHAR, data_type VARCHAR,
  character_maximum_length INTEGER, character_octet_length INTEGER, numeric_precision INTEGER,
  numeric_precision_radix INTEGER, numeric_scale INTEGER, datetime_precision INTEGER, interval_type VARCHAR,
  interval_precision INTEGER, character_set_catalog VARCHAR, character_set_schema VARCHAR,
  character_set_name VARCHAR, collation_catalog VARCHAR, collation_schema VARCHAR, collation_name VARCHAR,
  domain_catalog VARCHAR, domain_schema VARCHAR, domain_name VARCHAR, udt_catalog VARCHAR, udt_schema
  VARCHAR, udt_name VARCHAR, scope_catalog VARCHAR, scope_schema VARCHAR, scope_name VARCHAR,
  maximum_cardinality INTEGER, dtd_identifier VARCHAR, is_self_referencing VARCHAR, is_identity VARCHAR,
  identity_generation VARCHAR, identity_start VARCHAR, identity_increment VARCHAR, identity_maximum VARCHAR,
  identity_minimum VARCHAR, identity_cycle VARCHAR, is_generated VARCHAR, generation_expression VARCHAR,
  is_updatable VARCHAR);
CREATE TABLE info.constraint_column_usage (table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR,
  column_name VARCHAR, constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name VARCHAR);
CREATE TABLE info.constraint_table_usage (table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR,
  constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name VARCHAR);
CREATE TABLE info.domains (domain_catalog VARCHAR, domain_schema VARCHAR, domain_name VARCHAR, data_type
  VARCHAR, character_maximum_length INTEGER, character_octet_length INTEGER, character_set_catalog VARCHAR,
  character_set_schema VARCHAR, character_set_name VARCHAR, collation_catalog VARCHAR, collation_schema
  VARCHAR, collation_name VARCHAR, numeric_precision INTEGER, numeric_precision_radix INTEGER, numeric_scale
  INTEGER, datetime_precision INTEGER, interval_type VARCHAR, interval_precision INTEGER, domain_default
  VARCHAR, udt_catalog VARCHAR, udt_schema VARCHAR, udt_name VARCHAR, scope_catalog VARCHAR, scope_schema
  VARCHAR, scope_name VARCHAR, maximum_cardinality INTEGER, dtd_identifier VARCHAR);
CREATE TABLE info.element_types (object_catalog VARCHAR, object_schema VARCHAR, object_name VARCHAR,
  object_type VARCHAR, collection_type_identifier VARCHAR, data_type VARCHAR, character_maximum_length
  INTEGER, character_octet_length INTEGER, character_set_catalog VARCHAR, character_set_schema VARCHAR,
  character_set_name VARCHAR, collation_catalog VARCHAR, collation_schema VARCHAR, collation_name VARCHAR,
  numeric_precision INTEGER, numeric_precision_radix INTEGER, numeric_scale INTEGER, datetime_precision
  INTEGER, interval_type VARCHAR, interval_precision INTEGER, domain_default VARCHAR, udt_catalog VARCHAR,
  udt_schema VARCHAR, udt_name VARCHAR, scope_catalog VARCHAR, scope_schema VARCHAR, scope_name VARCHAR,
  maximum_cardinality INTEGER, dtd_identifier VARCHAR);
CREATE TABLE info.enabled_roles (role_name VARCHAR);
CREATE TABLE info.information_schema_catalog_name (catalog_name VARCHAR);
CREATE TABLE info.key_column_usage (constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name
  VARCHAR, table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, column_name VARCHAR,
  ordinal_position INTEGER, position_in_unique_constraint INTEGER);
CREATE TABLE info.parameters (specific_catalog VARCHAR, specific_schema VARCHAR, specific_name VARCHAR,
  ordinal_position INTEGER, parameter_mode VARCHAR, is_result VARCHAR, as_locator VARCHAR, parameter_name
  VARCHAR, data_type VARCHAR, character_maximum_length INTEGER, character_octet_length INTEGER,
  character_set_catalog VARCHAR, character_set_schema VARCHAR, character_set_name VARCHAR, collation_catalog
  VARCHAR, collation_schema VARCHAR, collation_name VARCHAR, numeric_precision INTEGER,
  numeric_precision_radix INTEGER, numeric_scale INTEGER, datetime_precision INTEGER, interval_type VARCHAR,
  interval_precision INTEGER, udt_catalog VARCHAR, udt_schema VARCHAR, udt_name VARCHAR, scope_catalog
  VARCHAR, scope_schema VARCHAR, scope_name VARCHAR, maximum_cardinality INTEGER, dtd_identifier VARCHAR,
  parameter_default VARCHAR);
CREATE TABLE info.referential_constraints (constraint_catalog VARCHAR, constraint_schema VARCHAR,
  constraint_name VARCHAR, unique_constraint_catalog VARCHAR, unique_constraint_schema VARCHAR,
  unique_constraint_name VARCHAR, match_option VARCHAR, update_rule VARCHAR, delete_rule VARCHAR);
CREATE TABLE info.role_table_grants (grantor VARCHAR, grantee VARCHAR, table_catalog VARCHAR, table_schema
  VARCHAR, table_name VARCHAR, privilege_type VARCHAR, is_grantable VARCHAR, with_hierarchy VARCHAR);
CREATE TABLE info.routines (specific_catalog VARCHAR, specific_schema VARCHAR, specific_name VARCHAR,
  routine_catalog VARCHAR, routine_schema VARCHAR, routine_name VARCHAR, routine_type VARCHAR,
  module_catalog VARCHAR, module_schema VARCHAR, module_name VARCHAR, udt_catalog VARCHAR, udt_schema
  VARCHAR, udt_name VARCHAR, data_type VARCHAR, character_maximum_length INTEGER, character_octet_length
  INTEGER, character_set_catalog VARCHAR, character_set_schema VARCHAR, character_set_name VARCHAR,
  collation_catalog VARCHAR, collation_schema VARCHAR, collation_name VARCHAR, numeric_precision INTEGER,
  numeric_precision_radix INTEGER, numeric_scale INTEGER, datetime_precision INTEGER, interval_type VARCHAR,
  interval_precision INTEGER, type_udt_catalog VARCHAR, type_udt_schema VARCHAR, type_udt_name VARCHAR,
  scope_catalog VARCHAR, scope_schema VARCHAR, scope_name VARCHAR, maximum_cardinality INTEGER,
  dtd_identifier VARCHAR, routine_body VARCHAR, routine_definition VARCHAR, external_name VARCHAR,
  external_language VARCHAR, parameter_style VARCHAR, is_deterministic VARCHAR, sql_data_access VARCHAR,
  is_null_call VARCHAR, sql_path VARCHAR, schema_level_routine VARCHAR, max_dynamic_result_sets INTEGER,
  is_user_defined_cast VARCHAR, is_implicitly_invocable VARCHAR, security_type VARCHAR,
  to_sql_specific_catalog VARCHAR, to_sql_specific_schema VARCHAR, to_sql_specific_name VARCHAR, as_locator
  VARCHAR, created VARCHAR, last_altered VARCHAR, new_savepoint_level VARCHAR, is_udt_dependent VARCHAR,
  result_cast_from_data_type VARCHAR, result_cast_as_locator VARCHAR, result_cast_char_max_length INTEGER,
  result_cast_char_octet_length INTEGER, result_cast_char_set_catalog VARCHAR, result_cast_char_set_schema
  VARCHAR, result_cast_char_set_name VARCHAR, result_cast_collation_catalog VARCHAR,
  result_cast_collation_schema VARCHAR, result_cast_collation_name VARCHAR, result_cast_numeric_precision
  INTEGER, result_cast_numeric_precision_radix INTEGER, result_cast_numeric_scale INTEGER,
  result_cast_datetime_precision INTEGER, result_cast_interval_type VARCHAR, result_cast_interval_precision
  INTEGER, result_cast_type_udt_catalog VARCHAR, result_cast_type_udt_schema VARCHAR,
  result_cast_type_udt_name VARCHAR, result_cast_scope_catalog VARCHAR, result_cast_scope_schema VARCHAR,
  result_cast_scope_name VARCHAR, result_cast_maximum_cardinality INTEGER, result_cast_dtd_identifier
  VARCHAR);
CREATE TABLE info.schemata (catalog_name VARCHAR, schema_name VARCHAR, schema_owner VARCHAR,
  default_character_set_catalog VARCHAR, default_character_set_schema VARCHAR, default_character_set_name
  VARCHAR, sql_path VARCHAR);
CREATE TABLE info.sequences (sequence_catalog VARCHAR, sequence_schema VARCHAR, sequence_name VARCHAR,
  data_type VARCHAR, numeric_precision INTEGER, numeric_precision_radix INTEGER, numeric_scale INTEGER,
  start_value VARCHAR, minimum_value VARCHAR, maximum_value VARCHAR, increment VARCHAR, cycle_option
  VARCHAR);
CREATE TABLE info.table_constraints (constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name
  VARCHAR, table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, constraint_type VARCHAR,
  is_deferrable VARCHAR, initially_deferred VARCHAR, enforced VARCHAR, nulls_distinct VARCHAR);
CREATE TABLE info.table_privileges (grantor VARCHAR, grantee VARCHAR, table_catalog VARCHAR, table_schema
  VARCHAR, table_name VARCHAR, privilege_type VARCHAR, is_grantable VARCHAR, with_hierarchy VARCHAR);
CREATE TABLE info.tables (table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, table_type
  VARCHAR, self_referencing_column_name VARCHAR, reference_generation VARCHAR, user_defined_type_catalog
  VARCHAR, user_defined_type_schema VARCHAR, user_defined_type_name VARCHAR, is_insertable_into VARCHAR,
  is_typed VARCHAR, commit_action VARCHAR);
CREATE TABLE info.triggers (trigger_catalog VARCHAR, trigger_schema VARCHAR, trigger_name VARCHAR,
  event_manipulation VARCHAR, event_object_catalog VARCHAR, event_object_schema VARCHAR, event_object_table
  VARCHAR, action_order INTEGER, action_condition VARCHAR, action_statement VARCHAR, action_orientation
  VARCHAR, action_timing VARCHAR, action_reference_old_table VARCHAR, action_reference_new_table VARCHAR,
  action_reference_old_row VARCHAR, action_reference_new_row VARCHAR, created VARCHAR);
CREATE TABLE info.views (table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, view_definition
  VARCHAR, check_option VARCHAR, is_updatable VARCHAR, is_insertable_into VARCHAR, is_trigger_updatable
  VARCHAR, is_trigger_deletable VARCHAR, is_trigger_insertable_into VARCHAR);
CREATE TABLE pg.pg_am (oid BIGINT, amname VARCHAR, amhandler VARCHAR, amtype VARCHAR);
CREATE TABLE pg.pg_attrdef (oid BIGINT, adrelid BIGINT, adnum SMALLINT, adbin VARCHAR);
CREATE TABLE pg.pg_attribute (attrelid BIGINT, attname VARCHAR, atttypid BIGINT, attstattarget INTEGER,
  attlen SMALLINT, attnum SMALLINT, attndims INTEGER, attcacheoff INTEGER, atttypmod INTEGER, attbyval
  BOOLEAN, attalign VARCHAR, attstorage VARCHAR, attcompression VARCHAR, attnotnull BOOLEAN, atthasdef
  BOOLEAN, atthasmissing BOOLEAN, attidentity VARCHAR, attgenerated VARCHAR, attisdropped BOOLEAN,
  attislocal BOOLEAN, attinhcount INTEGER, attcollation BIGINT, attacl VARCHAR[], attoptions VARCHAR[],
  attfdwoptions VARCHAR[], attmissingval VARCHAR);
CREATE TABLE pg.pg_auth_members (roleid BIGINT, member BIGINT, grantor BIGINT, admin_option BOOLEAN);
CREATE TABLE pg.pg_authid (oid BIGINT, rolname VARCHAR, rolsuper BOOLEAN, rolinherit BOOLEAN, rolcreaterole
  BOOLEAN, rolcreatedb BOOLEAN, rolcanlogin BOOLEAN, rolreplication BOOLEAN, rolbypassrls BOOLEAN,
  rolconnlimit INTEGER, rolpassword VARCHAR, rolvaliduntil TIMESTAMPTZ);
CREATE TABLE pg.pg_available_extensions (name VARCHAR, default_version VARCHAR, installed_version VARCHAR,
  comment VARCHAR);
CREATE TABLE pg.pg_cast (oid BIGINT, castsource BIGINT, casttarget BIGINT, castfunc BIGINT, castcontext
  VARCHAR, castmethod VARCHAR);
CREATE TABLE pg.pg_class (oid BIGINT, relname VARCHAR, relnamespace BIGINT, reltype BIGINT, reloftype
  BIGINT, relowner BIGINT, relam BIGINT, relfilenode BIGINT, reltablespace BIGINT, relpages INTEGER,
  reltuples FLOAT, relallvisible INTEGER, reltoastrelid BIGINT, relhasindex BOOLEAN, relisshared BOOLEAN,
  relpersistence VARCHAR, relkind VARCHAR, relnatts SMALLINT, relchecks SMALLINT, relhasrules BOOLEAN,
  relhastriggers BOOLEAN, relhassubclass BOOLEAN, relrowsecurity BOOLEAN, relforcerowsecurity BOOLEAN,
  relispopulated BOOLEAN, relreplident VARCHAR, relispartition BOOLEAN, relrewrite BIGINT, relfrozenxid
  BIGINT, relminmxid BIGINT, relacl VARCHAR[], reloptions VARCHAR[], relpartbound VARCHAR);
CREATE TABLE pg.pg_collation (oid BIGINT, collname VARCHAR, collnamespace BIGINT, collowner BIGINT,
  collprovider VARCHAR, collisdeterministic BOOLEAN, collencoding INTEGER, collcollate VARCHAR, collctype
  VARCHAR, colliculocale VARCHAR, collversion VARCHAR);
CREATE TABLE pg.pg_constraint (oid BIGINT, conname VARCHAR, connamespace BIGINT, contype VARCHAR,
  condeferrable BOOLEAN, condeferred BOOLEAN, convalidated BOOLEAN, conrelid BIGINT, contypid BIGINT,
  conindid BIGINT, conparentid BIGINT, confrelid BIGINT, confupdtype VARCHAR, confdeltype VARCHAR,
  confmatchtype VARCHAR, conislocal BOOLEAN, coninhcount INTEGER, connoinherit BOOLEAN, conkey SMALLINT[],
  confkey SMALLINT[], conpfeqop BIGINT[], conppeqop BIGINT[], conffeqop BIGINT[], confdelsetcols SMALLINT[],
  conexclop BIGINT[], conbin VARCHAR);
CREATE TABLE pg.pg_cursors (name VARCHAR, statement VARCHAR, is_holdable BOOLEAN, is_binary BOOLEAN,
  is_scrollable BOOLEAN, creation_time TIMESTAMPTZ);
CREATE TABLE pg.pg_database (oid BIGINT, datname VARCHAR, datdba BIGINT, encoding INTEGER, datlocprovider
  VARCHAR, datistemplate BOOLEAN, datallowconn BOOLEAN, datconnlimit INTEGER, datfrozenxid BIGINT,
  datminmxid BIGINT, dattablespace BIGINT, datcollate VARCHAR, datctype VARCHAR, daticulocale VARCHAR,
  datcollversion VARCHAR, datacl VARCHAR[]);
CREATE TABLE pg.pg_db_role_setting (setdatabase BIGINT, setrole BIGINT, setconfig VARCHAR[]);
CREATE TABLE pg.pg_depend (classid BIGINT, objid BIGINT, objsubid INTEGER, refclassid BIGINT, refobjid
  BIGINT, refobjsubid INTEGER, deptype VARCHAR);
CREATE TABLE pg.pg_description (objoid BIGINT, classoid BIGINT, objsubid INTEGER, description VARCHAR);
CREATE TABLE pg.pg_enum (oid BIGINT, enumtypid BIGINT, enumsortorder FLOAT, enumlabel VARCHAR);
CREATE TABLE pg.pg_event_trigger (oid BIGINT, evtname VARCHAR, evtevent VARCHAR, evtowner BIGINT, evtfoid
  BIGINT, evtenabled VARCHAR, evttags VARCHAR[]);
CREATE TABLE pg.pg_extension (oid BIGINT, extname VARCHAR, extowner BIGINT, extnamespace BIGINT,
  extrelocatable BOOLEAN, extversion VARCHAR, extconfig BIGINT[], extcondition VARCHAR[]);
CREATE TABLE pg.pg_foreign_data_wrapper (oid BIGINT, fdwname VARCHAR, fdwowner BIGINT, fdwhandler BIGINT,
  fdwvalidator BIGINT, fdwacl VARCHAR[], fdwoptions VARCHAR[]);
CREATE TABLE pg.pg_foreign_server (oid BIGINT, srvname VARCHAR, srvowner BIGINT, srvfdw BIGINT, srvtype
  VARCHAR, srvversion VARCHAR, srvacl VARCHAR[], srvoptions VARCHAR[]);
CREATE TABLE pg.pg_foreign_table (ftrelid BIGINT, ftserver BIGINT, ftoptions VARCHAR[]);
CREATE TABLE pg.pg_index (indexrelid BIGINT, indrelid BIGINT, indnatts SMALLINT, indnkeyatts SMALLINT,
  indisunique BOOLEAN, indnullsnotdistinct BOOLEAN, indisprimary BOOLEAN, indisexclusion BOOLEAN,
  indimmediate BOOLEAN, indisclustered BOOLEAN, indisvalid BOOLEAN, indcheckxmin BOOLEAN, indisready
  BOOLEAN, indislive BOOLEAN, indisreplident BOOLEAN, indkey SMALLINT[], indcollation BIGINT[], indclass
  BIGINT[], indoption SMALLINT[], indexprs VARCHAR, indpred VARCHAR);
CREATE TABLE pg.pg_indexes (schemaname VARCHAR, tablename VARCHAR, indexname VARCHAR, tablespace VARCHAR,
  indexdef VARCHAR);
CREATE TABLE pg.pg_inherits (inhrelid BIGINT, inhparent BIGINT, inhseqno INTEGER, inhdetachpending BOOLEAN);
CREATE TABLE pg.pg_language (oid BIGINT, lanname VARCHAR, lanowner BIGINT, lanispl BOOLEAN, lanpltrusted
  BOOLEAN, lanplcallfoid BIGINT, laninline BIGINT, lanvalidator BIGINT, lanacl VARCHAR[]);
CREATE TABLE pg.pg_locks (locktype VARCHAR, database BIGINT, relation BIGINT, page INTEGER, tuple SMALLINT,
  virtualxid VARCHAR, transactionid BIGINT, classid BIGINT, objid BIGINT, objsubid SMALLINT,
  virtualtransaction VARCHAR, pid INTEGER, mode VARCHAR, granted BOOLEAN, fastpath BOOLEAN, waitstart
  TIMESTAMPTZ);
CREATE TABLE pg.pg_matviews (schemaname VARCHAR, matviewname VARCHAR, matviewowner VARCHAR, tablespace
  VARCHAR, hasindexes BOOLEAN, ispopulated BOOLEAN, definition VARCHAR);
CREATE TABLE pg.pg_namespace (oid BIGINT, nspname VARCHAR, nspowner BIGINT, nspacl VARCHAR[]);
CREATE TABLE pg.pg_opclass (oid BIGINT, opcmethod BIGINT, opcname VARCHAR, opcnamespace BIGINT, opcowner
  BIGINT, opcfamily BIGINT, opcintype BIGINT, opcdefault BOOLEAN, opckeytype BIGINT);
CREATE TABLE pg.pg_operator (oid BIGINT, oprname VARCHAR, oprnamespace BIGINT, oprowner BIGINT, oprkind
  VARCHAR, oprcanmerge BOOLEAN, oprcanhash BOOLEAN, oprleft BIGINT, oprright BIGINT, oprresult BIGINT,
  oprcom BIGINT, oprnegate BIGINT, oprcode VARCHAR, oprrest VARCHAR, oprjoin VARCHAR);
CREATE TABLE pg.pg_partitioned_table (partrelid BIGINT, partstrat VARCHAR, partnatts SMALLINT, partdefid
  BIGINT, partattrs SMALLINT[], partclass BIGINT[], partcollation BIGINT[], partexprs VARCHAR);
CREATE TABLE pg.pg_policies (schemaname VARCHAR, tablename VARCHAR, policyname VARCHAR, permissive VARCHAR,
  roles VARCHAR[], cmd VARCHAR, qual VARCHAR, with_check VARCHAR);
CREATE TABLE pg.pg_policy (oid BIGINT, polname VARCHAR, polrelid BIGINT, polcmd VARCHAR, polpermissive
  BOOLEAN, polroles BIGINT[], polqual VARCHAR, polwithcheck VARCHAR);
CREATE TABLE pg.pg_prepared_statements (name VARCHAR, statement VARCHAR, prepare_time TIMESTAMPTZ,
  parameter_types VARCHAR[], from_sql BOOLEAN, generic_plans BIGINT, custom_plans BIGINT);
CREATE TABLE pg.pg_proc (oid BIGINT, proname VARCHAR, pronamespace BIGINT, proowner BIGINT, prolang BIGINT,
  procost FLOAT, prorows FLOAT, provariadic BIGINT, prosupport VARCHAR, prokind VARCHAR, prosecdef BOOLEAN,
  proleakproof BOOLEAN, proisstrict BOOLEAN, proretset BOOLEAN, provolatile VARCHAR, proparallel VARCHAR,
  pronargs SMALLINT, pronargdefaults SMALLINT, prorettype BIGINT, proargtypes BIGINT[], proallargtypes
  BIGINT[], proargmodes VARCHAR[], proargnames VARCHAR[], proargdefaults VARCHAR, protrftypes BIGINT[],
  prosrc VARCHAR, probin VARCHAR, prosqlbody VARCHAR, proconfig VARCHAR[], proacl VARCHAR[]);
CREATE TABLE pg.pg_publication (oid BIGINT, pubname VARCHAR, pubowner BIGINT, puballtables BOOLEAN,
  pubinsert BOOLEAN, pubupdate BOOLEAN, pubdelete BOOLEAN, pubtruncate BOOLEAN, pubviaroot BOOLEAN);
CREATE TABLE pg.pg_publication_namespace (oid BIGINT, pnpubid BIGINT, pnnspid BIGINT);
CREATE TABLE pg.pg_publication_rel (oid BIGINT, prpubid BIGINT, prrelid BIGINT, prqual VARCHAR, prattrs
  SMALLINT[]);
CREATE TABLE pg.pg_range (rngtypid BIGINT, rngsubtype BIGINT, rngmultitypid BIGINT, rngcollation BIGINT,
  rngsubopc BIGINT, rngcanonical VARCHAR, rngsubdiff VARCHAR);
CREATE TABLE pg.pg_rewrite (oid BIGINT, rulename VARCHAR, ev_class BIGINT, ev_type VARCHAR, ev_enabled
  VARCHAR, is_instead BOOLEAN, ev_qual VARCHAR, ev_action VARCHAR);
CREATE TABLE pg.pg_roles (rolname VARCHAR, rolsuper BOOLEAN, rolinherit BOOLEAN, rolcreaterole BOOLEAN,
  rolcreatedb BOOLEAN, rolcanlogin BOOLEAN, rolreplication BOOLEAN, rolconnlimit INTEGER, rolpassword
  VARCHAR, rolvaliduntil TIMESTAMPTZ, rolbypassrls BOOLEAN, rolconfig VARCHAR[], oid BIGINT);
CREATE TABLE pg.pg_sequence (seqrelid BIGINT, seqtypid BIGINT, seqstart BIGINT, seqincrement BIGINT, seqmax
  BIGINT, seqmin BIGINT, seqcache BIGINT, seqcycle BOOLEAN);
CREATE TABLE pg.pg_sequences (schemaname VARCHAR, sequencename VARCHAR, sequenceowner VARCHAR, data_type
  VARCHAR, start_value BIGINT, min_value BIGINT, max_value BIGINT, increment_by BIGINT, cycle BOOLEAN,
  cache_size BIGINT, last_value BIGINT);
CREATE TABLE pg.pg_shdepend (dbid BIGINT, classid BIGINT, objid BIGINT, objsubid INTEGER, refclassid BIGINT,
  refobjid BIGINT, deptype VARCHAR);
CREATE TABLE pg.pg_shdescription (objoid BIGINT, classoid BIGINT, description VARCHAR);
CREATE TABLE pg.pg_stat_activity (datid BIGINT, datname VARCHAR, pid INTEGER, leader_pid INTEGER, usesysid
  BIGINT, usename VARCHAR, application_name VARCHAR, client_addr VARCHAR, client_hostname VARCHAR,
  client_port INTEGER, backend_start TIMESTAMPTZ, xact_start TIMESTAMPTZ, query_start TIMESTAMPTZ,
  state_change TIMESTAMPTZ, wait_event_type VARCHAR, wait_event VARCHAR, state VARCHAR, backend_xid BIGINT,
  backend_xmin BIGINT, query_id BIGINT, query VARCHAR, backend_type VARCHAR);
CREATE TABLE pg.pg_stat_all_tables (relid BIGINT, schemaname VARCHAR, relname VARCHAR, seq_scan BIGINT,
  seq_tup_read BIGINT, idx_scan BIGINT, idx_tup_fetch BIGINT, n_tup_ins BIGINT, n_tup_upd BIGINT, n_tup_del
  BIGINT, n_tup_hot_upd BIGINT, n_live_tup BIGINT, n_dead_tup BIGINT, n_mod_since_analyze BIGINT,
  n_ins_since_vacuum BIGINT, last_vacuum TIMESTAMPTZ, last_autovacuum TIMESTAMPTZ, last_analyze TIMESTAMPTZ,
  last_autoanalyze TIMESTAMPTZ, vacuum_count BIGINT, autovacuum_count BIGINT, analyze_count BIGINT,
  autoanalyze_count BIGINT);
CREATE TABLE pg.pg_stat_database (datid BIGINT, datname VARCHAR, numbackends INTEGER, xact_commit BIGINT,
  xact_rollback BIGINT, blks_read BIGINT, blks_hit BIGINT, tup_returned BIGINT, tup_fetched BIGINT,
  tup_inserted BIGINT, tup_updated BIGINT, tup_deleted BIGINT, conflicts BIGINT, temp_files BIGINT,
  temp_bytes BIGINT, deadlocks BIGINT, checksum_failures BIGINT, checksum_last_failure TIMESTAMPTZ,
  blk_read_time DOUBLE, blk_write_time DOUBLE, session_time DOUBLE, active_time DOUBLE,
  idle_in_transaction_time DOUBLE, sessions BIGINT, sessions_abandoned BIGINT, sessions_fatal BIGINT,
  sessions_killed BIGINT, stats_reset TIMESTAMPTZ);
CREATE TABLE pg.pg_stat_ssl (pid INTEGER, ssl BOOLEAN, version VARCHAR, cipher VARCHAR, bits INTEGER,
  client_dn VARCHAR, client_serial VARCHAR, issuer_dn VARCHAR);
CREATE TABLE pg.pg_stat_user_functions (funcid BIGINT, schemaname VARCHAR, funcname VARCHAR, calls BIGINT,
  total_time DOUBLE, self_time DOUBLE);
CREATE TABLE pg.pg_stat_user_indexes (relid BIGINT, indexrelid BIGINT, schemaname VARCHAR, relname VARCHAR,
  indexrelname VARCHAR, idx_scan BIGINT, idx_tup_read BIGINT, idx_tup_fetch BIGINT);
CREATE TABLE pg.pg_stat_user_tables (relid BIGINT, schemaname VARCHAR, relname VARCHAR, seq_scan BIGINT,
  seq_tup_read BIGINT, idx_scan BIGINT, idx_tup_fetch BIGINT, n_tup_ins BIGINT, n_tup_upd BIGINT, n_tup_del
  BIGINT, n_tup_hot_upd BIGINT, n_live_tup BIGINT, n_dead_tup BIGINT, n_mod_since_analyze BIGINT,
  n_ins_since_vacuum BIGINT, last_vacuum TIMESTAMPTZ, last_autovacuum TIMESTAMPTZ, last_analyze TIMESTAMPTZ,
  last_autoanalyze TIMESTAMPTZ, vacuum_count BIGINT, autovacuum_count BIGINT, analyze_count BIGINT,
  autoanalyze_count BIGINT);
CREATE TABLE pg.pg_statio_user_tables (relid BIGINT, schemaname VARCHAR, relname VARCHAR, heap_blks_read
  BIGINT, heap_blks_hit BIGINT, idx_blks_read BIGINT, idx_blks_hit BIGINT, toast_blks_read BIGINT,
  toast_blks_hit BIGINT, tidx_blks_read BIGINT, tidx_blks_hit BIGINT);
CREATE TABLE pg.pg_statistic_ext (oid BIGINT, stxrelid BIGINT, stxname VARCHAR, stxnamespace BIGINT,
  stxowner BIGINT, stxstattarget INTEGER, stxkeys SMALLINT[], stxkind VARCHAR[], stxexprs VARCHAR);
CREATE TABLE pg.pg_stats (schemaname VARCHAR, tablename VARCHAR, attname VARCHAR, inherited BOOLEAN,
  null_frac FLOAT, avg_width INTEGER, n_distinct FLOAT, most_common_vals VARCHAR, most_common_freqs
  VARCHAR[], histogram_bounds VARCHAR, correlation FLOAT, most_common_elems VARCHAR, most_common_elem_freqs
  VARCHAR[], elem_count_histogram VARCHAR[]);
CREATE TABLE pg.pg_tables (schemaname VARCHAR, tablename VARCHAR, tableowner VARCHAR, tablespace VARCHAR,
  hasindexes BOOLEAN, hasrules BOOLEAN, hastriggers BOOLEAN, rowsecurity BOOLEAN);
CREATE TABLE pg.pg_tablespace (oid BIGINT, spcname VARCHAR, spcowner BIGINT, spcacl VARCHAR[], spcoptions
  VARCHAR[]);
CREATE TABLE pg.pg_timezone_names (name VARCHAR, abbrev VARCHAR, utc_offset VARCHAR, is_dst BOOLEAN);
CREATE TABLE pg.pg_opfamily (oid BIGINT, opfmethod BIGINT, opfname VARCHAR, opfnamespace BIGINT, opfowner BIGINT);
CREATE TABLE pg.pg_ts_parser (oid BIGINT, prsname VARCHAR, prsnamespace BIGINT);
CREATE TABLE pg.pg_ts_config (oid BIGINT, cfgname VARCHAR, cfgnamespace BIGINT, cfgowner BIGINT, cfgparser BIGINT);
CREATE TABLE pg.pg_ts_dict (oid BIGINT, dictname VARCHAR, dictnamespace BIGINT, dictowner BIGINT);
CREATE TABLE pg.pg_ts_template (oid BIGINT, tmplname VARCHAR, tmplnamespace BIGINT);
CREATE TABLE pg.pg_trigger (oid BIGINT, tgrelid BIGINT, tgparentid BIGINT, tgname VARCHAR, tgfoid BIGINT,
  tgtype SMALLINT, tgenabled VARCHAR, tgisinternal BOOLEAN, tgconstrrelid BIGINT, tgconstrindid BIGINT,
  tgconstraint BIGINT, tgdeferrable BOOLEAN, tginitdeferred BOOLEAN, tgnargs SMALLINT, tgattr SMALLINT[],
  tgargs VARCHAR, tgqual VARCHAR, tgoldtable VARCHAR, tgnewtable VARCHAR);
CREATE TABLE pg.pg_type (oid BIGINT, typname VARCHAR, typnamespace BIGINT, typowner BIGINT, typlen SMALLINT,
  typbyval BOOLEAN, typtype VARCHAR, typcategory VARCHAR, typispreferred BOOLEAN, typisdefined BOOLEAN,
  typdelim VARCHAR, typrelid BIGINT, typsubscript VARCHAR, typelem BIGINT, typarray BIGINT, typinput
  VARCHAR, typoutput VARCHAR, typreceive VARCHAR, typsend VARCHAR, typmodin VARCHAR, typmodout VARCHAR,
  typanalyze VARCHAR, typalign VARCHAR, typstorage VARCHAR, typnotnull BOOLEAN, typbasetype BIGINT,
  typtypmod INTEGER, typndims INTEGER, typcollation BIGINT, typdefaultbin VARCHAR, typdefault VARCHAR,
  typacl VARCHAR[]);
CREATE TABLE pg.pg_user (usename VARCHAR, usesysid BIGINT, usecreatedb BOOLEAN, usesuper BOOLEAN, userepl
  BOOLEAN, usebypassrls BOOLEAN, passwd VARCHAR, valuntil TIMESTAMPTZ, useconfig VARCHAR[]);
CREATE TABLE pg.pg_views (schemaname VARCHAR, viewname VARCHAR, viewowner VARCHAR, definition VARCHAR);

-- types -----------------------------------------------------------------------------------------------------

CREATE TABLE type_rows (oid BIGINT, typname VARCHAR, typlen SMALLINT, typbyval BOOLEAN, typtype VARCHAR,
  typcategory VARCHAR, typispreferred BOOLEAN, typdelim VARCHAR, typelem BIGINT, typarray BIGINT,
  typinput VARCHAR, typoutput VARCHAR, typcollation BIGINT, display VARCHAR);
INSERT INTO type_rows VALUES
  (16, 'bool', 1, true, 'b', 'B', true, ',', 0, 1000, 'boolin', 'boolout', 0, 'boolean'),
  (17, 'bytea', -1, false, 'b', 'U', false, ',', 0, 1001, 'byteain', 'byteaout', 0, 'bytea'),
  (18, 'char', 1, true, 'b', 'Z', false, ',', 0, 1002, 'charin', 'charout', 0, '"char"'),
  (19, 'name', 64, false, 'b', 'S', false, ',', 18, 1003, 'namein', 'nameout', 950, 'name'),
  (20, 'int8', 8, true, 'b', 'N', false, ',', 0, 1016, 'int8in', 'int8out', 0, 'bigint'),
  (21, 'int2', 2, true, 'b', 'N', false, ',', 0, 1005, 'int2in', 'int2out', 0, 'smallint'),
  (23, 'int4', 4, true, 'b', 'N', false, ',', 0, 1007, 'int4in', 'int4out', 0, 'integer'),
  (24, 'regproc', 4, true, 'b', 'N', false, ',', 0, 1008, 'regprocin', 'regprocout', 0, 'regproc'),
  (25, 'text', -1, false, 'b', 'S', true, ',', 0, 1009, 'textin', 'textout', 100, 'text'),
  (26, 'oid', 4, true, 'b', 'N', true, ',', 0, 1028, 'oidin', 'oidout', 0, 'oid'),
  (114, 'json', -1, false, 'b', 'U', false, ',', 0, 199, 'json_in', 'json_out', 0, 'json'),
  (199, '_json', -1, false, 'b', 'A', false, ',', 114, 0, 'array_in', 'array_out', 0, 'json[]'),
  (700, 'float4', 4, true, 'b', 'N', false, ',', 0, 1021, 'float4in', 'float4out', 0, 'real'),
  (701, 'float8', 8, true, 'b', 'N', true, ',', 0, 1022, 'float8in', 'float8out', 0, 'double precision'),
  (705, 'unknown', -2, false, 'p', 'X', false, ',', 0, 0, 'unknownin', 'unknownout', 0, 'unknown'),
  (1000, '_bool', -1, false, 'b', 'A', false, ',', 16, 0, 'array_in', 'array_out', 0, 'boolean[]'),
  (1001, '_bytea', -1, false, 'b', 'A', false, ',', 17, 0, 'array_in', 'array_out', 0, 'bytea[]'),
  (1002, '_char', -1, false, 'b', 'A', false, ',', 18, 0, 'array_in', 'array_out', 0, '"char"[]'),
  (1003, '_name', -1, false, 'b', 'A', false, ',', 19, 0, 'array_in', 'array_out', 950, 'name[]'),
  (1005, '_int2', -1, false, 'b', 'A', false, ',', 21, 0, 'array_in', 'array_out', 0, 'smallint[]'),
  (1007, '_int4', -1, false, 'b', 'A', false, ',', 23, 0, 'array_in', 'array_out', 0, 'integer[]'),
  (1009, '_text', -1, false, 'b', 'A', false, ',', 25, 0, 'array_in', 'array_out', 100, 'text[]'),
  (1014, '_bpchar', -1, false, 'b', 'A', false, ',', 1042, 0, 'array_in', 'array_out', 100, 'character[]'),
  (1015, '_varchar', -1, false, 'b', 'A', false, ',', 1043, 0, 'array_in', 'array_out', 100, 'character varying[]'),
  (1016, '_int8', -1, false, 'b', 'A', false, ',', 20, 0, 'array_in', 'array_out', 0, 'bigint[]'),
  (1021, '_float4', -1, false, 'b', 'A', false, ',', 700, 0, 'array_in', 'array_out', 0, 'real[]'),
  (1022, '_float8', -1, false, 'b', 'A', false, ',', 701, 0, 'array_in', 'array_out', 0, 'double precision[]'),
  (1028, '_oid', -1, false, 'b', 'A', false, ',', 26, 0, 'array_in', 'array_out', 0, 'oid[]'),
  (1042, 'bpchar', -1, false, 'b', 'S', false, ',', 0, 1014, 'bpcharin', 'bpcharout', 100, 'character'),
  (1043, 'varchar', -1, false, 'b', 'S', false, ',', 0, 1015, 'varcharin', 'varcharout', 100, 'character varying'),
  (1082, 'date', 4, true, 'b', 'D', false, ',', 0, 1182, 'date_in', 'date_out', 0, 'date'),
  (1083, 'time', 8, true, 'b', 'D', false, ',', 0, 1183, 'time_in', 'time_out', 0, 'time without time zone'),
  (1114, 'timestamp', 8, true, 'b', 'D', false, ',', 0, 1115, 'timestamp_in', 'timestamp_out', 0, 'timestamp without time zone'),
  (1115, '_timestamp', -1, false, 'b', 'A', false, ',', 1114, 0, 'array_in', 'array_out', 0, 'timestamp without time zone[]'),
  (1182, '_date', -1, false, 'b', 'A', false, ',', 1082, 0, 'array_in', 'array_out', 0, 'date[]'),
  (1183, '_time', -1, false, 'b', 'A', false, ',', 1083, 0, 'array_in', 'array_out', 0, 'time without time zone[]'),
  (1184, 'timestamptz', 8, true, 'b', 'D', true, ',', 0, 1185, 'timestamptz_in', 'timestamptz_out', 0, 'timestamp with time zone'),
  (1185, '_timestamptz', -1, false, 'b', 'A', false, ',', 1184, 0, 'array_in', 'array_out', 0, 'timestamp with time zone[]'),
  (1186, 'interval', 16, false, 'b', 'T', true, ',', 0, 1187, 'interval_in', 'interval_out', 0, 'interval'),
  (1187, '_interval', -1, false, 'b', 'A', false, ',', 1186, 0, 'array_in', 'array_out', 0, 'interval[]'),
  (1231, '_numeric', -1, false, 'b', 'A', false, ',', 1700, 0, 'array_in', 'array_out', 0, 'numeric[]'),
  (1700, 'numeric', -1, false, 'b', 'N', false, ',', 0, 1231, 'numeric_in', 'numeric_out', 0, 'numeric'),
  (2205, 'regclass', 4, true, 'b', 'N', false, ',', 0, 2210, 'regclassin', 'regclassout', 0, 'regclass'),
  (2206, 'regtype', 4, true, 'b', 'N', false, ',', 0, 2211, 'regtypein', 'regtypeout', 0, 'regtype'),
  (2249, 'record', -1, false, 'p', 'P', false, ',', 0, 2287, 'record_in', 'record_out', 0, 'record'),
  (2275, 'cstring', -2, false, 'p', 'P', false, ',', 0, 1263, 'cstring_in', 'cstring_out', 0, 'cstring'),
  (2276, 'any', 4, true, 'p', 'P', false, ',', 0, 0, 'any_in', 'any_out', 0, '"any"'),
  (2277, 'anyarray', -1, false, 'p', 'P', false, ',', 0, 0, 'anyarray_in', 'anyarray_out', 0, 'anyarray'),
  (2278, 'void', 4, true, 'p', 'P', false, ',', 0, 0, 'void_in', 'void_out', 0, 'void'),
  (2950, 'uuid', 16, false, 'b', 'U', false, ',', 0, 2951, 'uuid_in', 'uuid_out', 0, 'uuid'),
  (2951, '_uuid', -1, false, 'b', 'A', false, ',', 2950, 0, 'array_in', 'array_out', 0, 'uuid[]'),
  (3802, 'jsonb', -1, false, 'b', 'U', false, ',', 0, 3807, 'jsonb_in', 'jsonb_out', 0, 'jsonb'),
  (3807, '_jsonb', -1, false, 'b', 'A', false, ',', 3802, 0, 'array_in', 'array_out', 0, 'jsonb[]');
INSERT INTO pg.pg_type BY NAME
SELECT * EXCLUDE (display), 11 AS typnamespace, 10 AS typowner, true AS typisdefined, 0 AS typrelid,
  false AS typnotnull, 0 AS typbasetype, -1 AS typtypmod, 0 AS typndims
FROM type_rows;
CREATE TABLE type_names AS SELECT oid, typname AS name, display FROM type_rows;

-- names of relations, for casts to regclass -------------------------------------------------------------------

CREATE TABLE relation_names AS
SELECT oid, name FROM lake_tables
UNION ALL
SELECT col0, col1 FROM (VALUES (1247, 'pg_type'), (1249, 'pg_attribute'), (1255, 'pg_proc'),
  (1259, 'pg_class'), (1260, 'pg_authid'), (1261, 'pg_auth_members'), (1262, 'pg_database'),
  (2604, 'pg_attrdef'), (2606, 'pg_constraint'), (2610, 'pg_index'), (2615, 'pg_namespace'),
  (2618, 'pg_rewrite'), (2620, 'pg_trigger'), (3079, 'pg_extension'), (1213, 'pg_tablespace'));

-- rows that never change ---------------------------------------------------------------------------------------

INSERT INTO pg.pg_namespace BY NAME
SELECT col0 AS oid, col1 AS nspname, 10 AS nspowner
FROM (VALUES (11, 'pg_catalog'), (2200, 'public'), (13000, 'information_schema'));

INSERT INTO pg.pg_roles BY NAME
SELECT 10 AS oid, 'reader' AS rolname, false AS rolsuper, true AS rolinherit, false AS rolcreaterole,
  false AS rolcreatedb, true AS rolcanlogin, false AS rolreplication, -1 AS rolconnlimit, false AS rolbypassrls;
INSERT INTO pg.pg_authid BY NAME SELECT * EXCLUDE (rolconfig) FROM pg.pg_roles;
INSERT INTO pg.pg_user BY NAME
SELECT 'reader' AS usename, 10 AS usesysid, false AS usecreatedb, false AS usesuper, false AS userepl,
  false AS usebypassrls;

INSERT INTO pg.pg_database BY NAME
SELECT 16384 AS oid, 'lake' AS datname, 10 AS datdba, 6 AS encoding, 'c' AS datlocprovider,
  false AS datistemplate, true AS datallowconn, -1 AS datconnlimit, 0 AS datfrozenxid, 1663 AS dattablespace,
  'C.UTF-8' AS datcollate, 'C.UTF-8' AS datctype;
INSERT INTO pg.pg_tablespace BY NAME SELECT 1663 AS oid, 'pg_default' AS spcname, 10 AS spcowner;
INSERT INTO pg.pg_am BY NAME SELECT 2 AS oid, 'heap' AS amname, 'heap_tableam_handler' AS amhandler, 't' AS amtype;
INSERT INTO pg.pg_collation BY NAME
SELECT 100 AS oid, 'default' AS collname, 11 AS collnamespace, 10 AS collowner, 'd' AS collprovider,
  true AS collisdeterministic, -1 AS collencoding;
INSERT INTO pg.pg_language BY NAME
SELECT 12 AS oid, 'internal' AS lanname, 10 AS lanowner, false AS lanispl, false AS lanpltrusted;
INSERT INTO pg.pg_timezone_names BY NAME SELECT 'UTC' AS name, 'UTC' AS abbrev, '00:00:00' AS utc_offset, false AS is_dst;

-- the tables of the lake ------------------------------------------------------------------------------------

INSERT INTO pg.pg_class BY NAME
SELECT oid, name AS relname, 2200 AS relnamespace, 0 AS reltype, 0 AS reloftype, 10 AS relowner, 2 AS relam,
  0 AS relfilenode, 0 AS reltablespace, 0 AS relpages, -1 AS reltuples, 0 AS relallvisible, 0 AS reltoastrelid,
  false AS relhasindex, false AS relisshared, 'p' AS relpersistence, 'r' AS relkind, 1 AS relnatts, 0 AS relchecks,
  false AS relhasrules, false AS relhastriggers, false AS relhassubclass, false AS relrowsecurity,
  false AS relforcerowsecurity, true AS relispopulated, 'n' AS relreplident, false AS relispartition,
  0 AS relrewrite, 0 AS relfrozenxid, 0 AS relminmxid
FROM lake_tables;
INSERT INTO pg.pg_tables BY NAME
SELECT 'public' AS schemaname, name AS tablename, 'reader' AS tableowner, false AS hasindexes,
  false AS hasrules, false AS hastriggers, false AS rowsecurity
FROM lake_tables;
INSERT INTO pg.pg_description BY NAME
SELECT oid AS objoid, 1259 AS classoid, 0 AS objsubid, comment AS description FROM lake_tables;
INSERT INTO pg.pg_stat_user_tables BY NAME
SELECT oid AS relid, 'public' AS schemaname, name AS relname FROM lake_tables;

INSERT INTO info.tables BY NAME
SELECT 'lake' AS table_catalog, 'public' AS table_schema, name AS table_name, 'BASE TABLE' AS table_type,
  'NO' AS is_insertable_into, 'NO' AS is_typed
FROM lake_tables;
INSERT INTO info.schemata BY NAME
SELECT 'lake' AS catalog_name, nspname AS schema_name, 'reader' AS schema_owner FROM pg.pg_namespace;
INSERT INTO info.table_privileges BY NAME
SELECT 'reader' AS grantor, 'reader' AS grantee, 'lake' AS table_catalog, 'public' AS table_schema,
  name AS table_name, 'SELECT' AS privilege_type, 'NO' AS is_grantable, 'YES' AS with_hierarchy
FROM lake_tables;
INSERT INTO info.role_table_grants BY NAME SELECT * FROM info.table_privileges;
INSERT INTO info.information_schema_catalog_name SELECT 'lake';
INSERT INTO info.enabled_roles SELECT 'reader';

-- functions -------------------------------------------------------------------------------------------------

CREATE MACRO pgf_version() AS 'PostgreSQL 15.0 (Lakerunner) on a lake, read-only';
CREATE MACRO pgf_current_user() AS 'reader';
CREATE MACRO pgf_session_user() AS 'reader';
CREATE MACRO pgf_user() AS 'reader';
CREATE MACRO pgf_current_role() AS 'reader';
CREATE MACRO pgf_current_schema() AS 'public';
CREATE MACRO pgf_current_schemas(with_implicit) AS
  CASE WHEN with_implicit THEN ['pg_catalog', 'public'] ELSE ['public'] END;
CREATE MACRO pgf_pg_get_userbyid(role) AS CASE WHEN role = 10 THEN 'reader' ELSE 'unknown (OID=' || role || ')' END;
CREATE MACRO pgf_pg_table_is_visible(x) AS true;
CREATE MACRO pgf_pg_type_is_visible(x) AS true;
CREATE MACRO pgf_pg_function_is_visible(x) AS true;
CREATE MACRO pgf_pg_operator_is_visible(x) AS true;
CREATE MACRO pgf_pg_opclass_is_visible(x) AS true;
CREATE MACRO pgf_pg_opfamily_is_visible(x) AS true;
CREATE MACRO pgf_pg_collation_is_visible(x) AS true;
CREATE MACRO pgf_pg_conversion_is_visible(x) AS true;
CREATE MACRO pgf_pg_statistics_obj_is_visible(x) AS true;
CREATE MACRO pgf_pg_relation_is_publishable(x) AS false;
CREATE MACRO pgf_pg_ts_parser_is_visible(x) AS true;
CREATE MACRO pgf_pg_partition_ancestors(x) AS NULL::BIGINT;
CREATE MACRO pgf__pg_expandarray(x) AS {'x': NULL::SMALLINT, 'n': NULL::INTEGER};
CREATE MACRO pgf_pg_is_in_recovery() AS false;
CREATE MACRO pgf_pg_is_other_temp_schema(x) AS false;
CREATE MACRO pgf_pg_my_temp_schema() AS 0;
CREATE MACRO pgf_pg_advisory_unlock_all() AS NULL;
CREATE MACRO pgf_pg_postmaster_start_time() AS now();
CREATE MACRO pgf_pg_conf_load_time() AS now();
CREATE MACRO pgf_txid_current() AS 1;
CREATE MACRO pgf_pg_current_xact_id() AS 1;
CREATE MACRO pgf_inet_server_addr() AS NULL::VARCHAR;
CREATE MACRO pgf_inet_client_addr() AS NULL::VARCHAR;
CREATE MACRO pgf_inet_server_port() AS NULL::INTEGER;
CREATE MACRO pgf_pg_encoding_to_char(x) AS CASE WHEN x = 6 THEN 'UTF8' ELSE '' END;
CREATE MACRO pgf_pg_char_to_encoding(x) AS CASE WHEN upper(x) IN ('UTF8', 'UTF-8') THEN 6 ELSE -1 END;
CREATE MACRO pgf_pg_client_encoding() AS 'UTF8';
CREATE MACRO pgf_getdatabaseencoding() AS 'UTF8';
CREATE MACRO pgf_pg_size_pretty(x) AS x || ' bytes';
CREATE MACRO pgf_pg_table_size(x) AS 0;
CREATE MACRO pgf_pg_relation_size(x) AS 0, (x, fork) AS 0;
CREATE MACRO pgf_pg_total_relation_size(x) AS 0;
CREATE MACRO pgf_pg_indexes_size(x) AS 0;
CREATE MACRO pgf_pg_database_size(x) AS 0;
CREATE MACRO pgf_pg_tablespace_location(x) AS '';
CREATE MACRO pgf_pg_tablespace_size(x) AS 0;
CREATE MACRO pgf_pg_stat_get_numscans(x) AS 0;
CREATE MACRO pgf_pg_get_expr(x, relation) AS NULL::VARCHAR, (x, relation, pretty) AS NULL::VARCHAR;
CREATE MACRO pgf_pg_get_constraintdef(x) AS NULL::VARCHAR, (x, pretty) AS NULL::VARCHAR;
CREATE MACRO pgf_pg_get_indexdef(x) AS NULL::VARCHAR, (x, number, pretty) AS NULL::VARCHAR;
CREATE MACRO pgf_pg_get_viewdef(x) AS NULL::VARCHAR, (x, pretty) AS NULL::VARCHAR;
CREATE MACRO pgf_pg_get_triggerdef(x) AS NULL::VARCHAR, (x, pretty) AS NULL::VARCHAR;
CREATE MACRO pgf_pg_get_ruledef(x) AS NULL::VARCHAR, (x, pretty) AS NULL::VARCHAR;
CREATE MACRO pgf_pg_get_functiondef(x) AS NULL::VARCHAR;
CREATE MACRO pgf_pg_get_function_result(x) AS NULL::VARCHAR;
CREATE MACRO pgf_pg_get_function_arguments(x) AS NULL::VARCHAR;
CREATE MACRO pgf_pg_get_function_identity_arguments(x) AS NULL::VARCHAR;
CREATE MACRO pgf_pg_get_function_sqlbody(x) AS NULL::VARCHAR;
CREATE MACRO pgf_pg_get_partkeydef(x) AS NULL::VARCHAR;
CREATE MACRO pgf_pg_get_serial_sequence(x, y) AS NULL::VARCHAR;
CREATE MACRO pgf_pg_get_statisticsobjdef_columns(x) AS NULL::VARCHAR;
CREATE MACRO pgf_pg_get_keywords() AS TABLE
  SELECT keyword_name AS word,
    CASE keyword_category WHEN 'reserved' THEN 'R' WHEN 'unreserved' THEN 'U' WHEN 'column_name' THEN 'C'
      ELSE 'T' END AS catcode,
    keyword_category AS catdesc
  FROM duckdb_keywords();
CREATE MACRO pgf_parse_ident(x) AS list_transform(string_split(x, '.'), lambda part:
  CASE WHEN part LIKE '"%"' THEN replace(part[2:-2], '""', '"') ELSE lower(part) END);
CREATE MACRO pgf_has_table_privilege(x, what) AS upper(what) LIKE 'SELECT%',
  (role, x, what) AS upper(what) LIKE 'SELECT%';
CREATE MACRO pgf_has_any_column_privilege(x, what) AS upper(what) LIKE 'SELECT%',
  (role, x, what) AS upper(what) LIKE 'SELECT%';
CREATE MACRO pgf_has_column_privilege(x, y, what) AS upper(what) LIKE 'SELECT%';
CREATE MACRO pgf_has_schema_privilege(x, what) AS upper(what) LIKE 'USAGE%',
  (role, x, what) AS upper(what) LIKE 'USAGE%';
CREATE MACRO pgf_has_database_privilege(x, what) AS upper(what) LIKE 'CONNECT%',
  (role, x, what) AS upper(what) LIKE 'CONNECT%';
CREATE MACRO pgf_has_function_privilege(x, what) AS true;
CREATE MACRO pgf_has_sequence_privilege(x, what) AS false;
CREATE MACRO pgf_has_tablespace_privilege(x, what) AS false;
CREATE MACRO pgf_pg_has_role(x, what) AS true, (role, x, what) AS true;
CREATE MACRO pgf_row_security_active(x) AS false;
CREATE MACRO pgf_obj_description(x) AS
    (SELECT description FROM pg.pg_description WHERE objoid = x AND objsubid = 0 LIMIT 1),
  (x, class) AS
    (SELECT description FROM pg.pg_description
     WHERE objoid = x AND objsubid = 0 AND class = 'pg_class' LIMIT 1);
CREATE MACRO pgf_shobj_description(x, class) AS NULL::VARCHAR;
CREATE MACRO pgf_col_description(x, place) AS
  (SELECT comment FROM lake_columns WHERE table_oid = x AND number = place LIMIT 1);
CREATE MACRO pgf_format_type(x, modifier) AS
  CASE WHEN x IS NULL THEN NULL
  ELSE coalesce((SELECT display FROM type_names WHERE type_names.oid = x LIMIT 1), '???') END;
CREATE MACRO pgf_to_regclass(x) AS
  (SELECT oid FROM relation_names
   WHERE name = regexp_replace(replace(x::VARCHAR, '"', ''), '^(public|pg_catalog)[.]', '') LIMIT 1);
CREATE MACRO pgf_to_regtype(x) AS
  (SELECT oid FROM type_names
   WHERE regexp_replace(replace(x::VARCHAR, '"', ''), '^pg_catalog[.]', '') IN (name, display) LIMIT 1);
CREATE MACRO pgf_to_regnamespace(x) AS (SELECT oid FROM pg.pg_namespace WHERE nspname = x::VARCHAR LIMIT 1);
CREATE MACRO pgf_to_regrole(x) AS CASE WHEN x::VARCHAR = 'reader' THEN 10 END;
CREATE MACRO pgf_to_regproc(x) AS regexp_replace(x::VARCHAR, '^pg_catalog[.]', '');
CREATE MACRO pgf_name_of_regclass(x) AS
  CASE WHEN x = 0 THEN '-'
  ELSE coalesce((SELECT name FROM relation_names WHERE relation_names.oid = x LIMIT 1), x::VARCHAR) END;
CREATE MACRO pgf_name_of_regtype(x) AS CASE WHEN x = 0 THEN '-' ELSE pgf_format_type(x, NULL) END;
CREATE MACRO pgf_name_of_regnamespace(x) AS
  coalesce((SELECT nspname FROM pg.pg_namespace WHERE pg_namespace.oid = x LIMIT 1), x::VARCHAR);
CREATE MACRO pgf_name_of_regrole(x) AS pgf_pg_get_userbyid(x);
CREATE MACRO pgf_name_of_regproc(x) AS x::VARCHAR;
CREATE MACRO pgf_array_upper(x, dimension) AS len(x);
CREATE MACRO pgf_array_lower(x, dimension) AS CASE WHEN len(x) > 0 THEN 1 END;
CREATE MACRO pgf_quote_ident(x) AS CASE WHEN regexp_full_match(x, '[a-z_][a-z0-9_$]*') THEN x
  ELSE '"' || replace(x, '"', '""') || '"' END;
CREATE MACRO pgf_quote_literal(x) AS '''' || replace(x, '''', '''''') || '''';
