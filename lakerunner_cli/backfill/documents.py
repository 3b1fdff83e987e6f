"""The GraphQL documents for Dagster; a test validates each against its webserver's schema."""

from __future__ import annotations

PARTITIONS = """
query Partitions($asset: AssetKeyInput!) {
  assetNodeOrError(assetKey: $asset) {
    __typename
    ... on AssetNode { partitionKeysByDimension { name partitionKeys } }
    ... on AssetNotFoundError { message }
  }
}
"""

LAUNCH = """
mutation Launch($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on Error { message }
  }
}
"""

STATE = """
query State($id: String!) {
  partitionBackfillOrError(backfillId: $id) {
    __typename
    ... on PartitionBackfill {
      status
      error { message }
      runs(limit: 1000) { id status }
      assetBackfillData {
        assetBackfillStatuses {
          __typename
          ... on AssetPartitionsStatusCounts {
            assetKey { path }
            numPartitionsTargeted
            numPartitionsInProgress
            numPartitionsMaterialized
            numPartitionsFailed
          }
        }
      }
    }
    ... on Error { message }
  }
}
"""

CANCEL = """
mutation Cancel($id: String!) {
  cancelPartitionBackfill(backfillId: $id) {
    __typename
    ... on CancelBackfillSuccess { backfillId }
    ... on Error { message }
  }
}
"""

FAILURES = """
query Failures($run: ID!, $cursor: String) {
  logsForRun(runId: $run, afterCursor: $cursor, limit: 1000) {
    __typename
    ... on EventConnection {
      cursor
      hasMore
      events {
        __typename
        ... on ExecutionStepFailureEvent {
          stepKey
          error { message cause { message } }
          failureMetadata { description }
        }
      }
    }
    ... on Error { message }
  }
}
"""
