"""The assets `tables/{table}` register the segments of a dataset as Iceberg tables, one per organisation.

A run asked for by the sensor takes every table that the index lists as due, whatever partition it is shown
under; materialising partitions by hand updates exactly those. Tables that are not open are passed over:
`lakerunner tables on` opens them.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from lakerunner_assets.keys import MODE_TAG, Tier, asset_key, rollup_key, table_key
from lakerunner_assets.partitions import ORGANISATIONS
from lakerunner_assets.run_context import heartbeat
from resources.bindings import Lakerunner
from resources.iceberg import NAMES, TABLES
from resources.lake.frequency import ROLLUPS
from resources.lake.layout import Signal
from resources.lake.signals import FACTS

if TYPE_CHECKING:
    from lakerunner_assets.tables.run import TableUpdate

DUE = "due"
_ROLLED = {rollup.dataset: rollup_key(rollup) for rollup in ROLLUPS}
_COOKED = {FACTS[signal].dataset: asset_key(Tier.COOKED, signal) for signal in Signal}
SOURCES = {**_COOKED, **_ROLLED}
"""Asset that fills a dataset."""


def tables_asset() -> dg.AssetsDefinition:
    by_org = dg.MultiToSingleDimensionPartitionMapping("org")

    @dg.multi_asset(
        name="tables",
        specs=[
            dg.AssetSpec(
                table_key(name),
                deps=[dg.AssetDep(SOURCES[dataset], partition_mapping=by_org)],
                skippable=True,
                group_name="tables",
                kinds={"iceberg", "parquet"},
                description=f"Segments of {dataset} as an Iceberg table, by reference.",
            )
            for name, dataset in TABLES.items()
        ],
        partitions_def=ORGANISATIONS,
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=True,
    )
    def tables(
        context: dg.AssetExecutionContext, lakerunner: Lakerunner
    ) -> Iterator[dg.MaterializeResult[None]]:
        from lakerunner_assets.tables.run import due_tables, update_tables

        index, settings = lakerunner.index, lakerunner.settings
        listed = index.list_tables()
        if context.run.tags.get(MODE_TAG) == DUE:
            chosen = due_tables(listed, settings)
        else:
            orgs = set(context.partition_keys)
            names = {key.path[-1] for key in context.selected_asset_keys}
            chosen = [t for t in listed if t.org in orgs and NAMES[t.dataset] in names]
        with heartbeat(index, context.run_id, settings):
            wanted = [(table.org, table.dataset) for table in chosen]
            for done in update_tables(index, settings, wanted, context.log.warning):
                context.log_event(_materialization(done))
            index.add_counters({"lakerunner_tables_updates_total": float(len(wanted))})
        context.log.info(f"{len(chosen)} tables looked at, {len(listed)} are open")
        yield from ()

    return tables


def _materialization(done: "TableUpdate") -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        table_key(done.name),
        partition=done.org,
        metadata={
            "index version": done.version,
            "snapshot": str(done.snapshot_id),
            "files added": done.added,
            "files removed": done.removed,
            "files": done.files,
            "rows": done.rows,
            "columns left out": dg.MetadataValue.json(_few(sorted(done.left_out))),
            "seconds": round(done.seconds, 3),
        },
    )


def _few(names: Sequence[str]) -> list[str]:
    return list(names[:100])
