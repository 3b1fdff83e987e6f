"""Attempts at one statement on Spark do not share names."""

from __future__ import annotations

from lakerunner_query.plan.lakeql_spark_scalars import DuckFunction
from lakerunner_query.protocol.handover import Handover, HandoverTable

PREFIX = "q0123456789abcdef_"


def test_an_attempt_that_lost_its_lease_cannot_drop_the_tables_of_the_next() -> None:
    plan = Handover(
        "acme",
        f"SELECT {PREFIX.upper()}LQ_0(a) FROM {PREFIX}scan_0 WHERE b = 'scan_0'",
        (HandoverTable(f"{PREFIX}scan_0", ()),),
        (DuckFunction(f"{PREFIX}lq_0", "a0 + 1", ("BIGINT",), "BIGINT"),),
        b"",
        PREFIX,
    )
    first, second = plan.of_attempt(1), plan.of_attempt(2)
    names = [{one.name for one in (*each.tables, *each.functions)} for each in (first, second)]
    assert not names[0] & names[1]
    for each, known in zip((first, second), names, strict=True):
        assert all(name in each.sql.lower() for name in known)
        assert each.sql.endswith("b = 'scan_0'")
