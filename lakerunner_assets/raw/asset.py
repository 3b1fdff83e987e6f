"""The assets `raw/{signal}` are the raw objects of an organisation by arrival hour.

Sensors record its materialisations as objects arrive. Materialising it by hand, or by the safety-net
schedule, lists the prefixes and registers what notifications missed.
"""

from collections import defaultdict
from collections.abc import Iterator

import dagster as dg

from lakerunner_assets.keys import Tier, asset_key
from lakerunner_assets.partitions import org_hours, parse_partition_key, partition_key
from lakerunner_assets.run_context import heartbeat
from lakerunner_assets.spec import SignalSpec
from resources.bindings import Lakerunner


def raw_asset(spec: SignalSpec, horizon: str) -> dg.AssetsDefinition:
    @dg.asset(
        key=asset_key(Tier.RAW, spec.signal),
        partitions_def=org_hours(horizon),
        backfill_policy=dg.BackfillPolicy.single_run(),
        group_name=spec.signal.value,
        kinds={"otel"},
        description=f"{spec.description} Raw objects by arrival hour; materialise to register what no "
        "notification announced.",
    )
    def raw(
        context: dg.AssetExecutionContext, lakerunner: Lakerunner
    ) -> Iterator[dg.MaterializeResult[None]]:
        from lakerunner_assets.raw.listing import register_missed

        hours_of: dict[str, list[int]] = defaultdict(list)
        for key in context.partition_keys:
            org, hour = parse_partition_key(key)
            hours_of[org].append(hour)
        unreachable: set[str] = set()
        with heartbeat(lakerunner.index, context.run_id, lakerunner.settings):
            for org, hours in hours_of.items():
                found = register_missed(lakerunner.index, lakerunner.settings, spec.signal, org, hours)
                context.log.info(f"{org}: {found.listed} objects listed, {found.registered} newly registered")
                metadata: dict[str, dg.MetadataValue | int] = {
                    "listed": found.listed,
                    "registered": found.registered,
                    "unplaced": dg.MetadataValue.json(found.unplaced[:100]),
                }
                unreachable.update(found.unreachable)
                for hour in hours:
                    context.add_asset_metadata(metadata, partition_key=partition_key(org, hour))
            if unreachable:  # after the others were listed, since one bad bucket must not blind us to all
                raise dg.Failure("could not list " + "; ".join(sorted(unreachable)))
            yield dg.MaterializeResult()  # while the heart beats: an event per partition can take minutes

    return raw
