"""Loki's statistics object; what has no counterpart here is zero."""

from __future__ import annotations

from lakerunner_query.coordinator.merge import Collected


def statistics(collected: Collected, seconds: float) -> dict[str, object]:
    """As Grafana's query inspector and logcli `--stats` read it."""
    ingester = {"totalReached": 0, "totalChunksMatched": 0, "totalBatches": 0, "totalLinesSent": 0}
    return {
        "summary": _summary(collected, max(seconds, 1e-9)),
        "querier": {"store": _store(collected)},
        "ingester": {**ingester, "store": _store(Collected(0))},
        "cache": {},
        "index": {"totalChunks": 0, "postFilterChunks": 0, "shardsDuration": 0},
    }


def _summary(collected: Collected, seconds: float) -> dict[str, object]:
    return {
        "bytesProcessedPerSecond": int(collected.bytes_considered / seconds),
        "linesProcessedPerSecond": int(collected.rows_considered / seconds),
        "totalBytesProcessed": collected.bytes_considered,
        "totalLinesProcessed": collected.rows_considered,
        "execTime": seconds,
        "queueTime": 0,
        "subqueries": 0,
        "totalEntriesReturned": collected.rows,
        "splits": collected.units,
        "shards": 0,
        "totalPostFilterLines": collected.rows,
        "totalStructuredMetadataBytesProcessed": 0,
    }


def _store(collected: Collected) -> dict[str, object]:
    return {
        "totalChunksRef": collected.segments_opened + collected.segments_skipped,
        "totalChunksDownloaded": collected.segments_opened,
        "chunksDownloadTime": 0,
        "queryReferencedStructuredMetadata": False,
        "chunk": {
            "headChunkBytes": 0,
            "headChunkLines": 0,
            "decompressedBytes": collected.bytes_considered,
            "decompressedLines": collected.rows_considered,
            "compressedBytes": collected.bytes_considered,
            "totalDuplicates": 0,
        },
    }
