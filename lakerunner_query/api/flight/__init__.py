"""Flight SQL: LakeQL for ADBC and JDBC drivers, with answers as streams of Arrow."""
