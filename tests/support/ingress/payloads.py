"""Notifications as the clouds document them, with our buckets and keys put in."""

from __future__ import annotations

import base64
import json
from typing import Any

TIME = "2026-01-02T03:04:05.000Z"
T = 1_767_323_045_000_000_000


def s3(key: str, name: str = "ObjectCreated:Put", bucket: str = "raw") -> dict[str, Any]:
    """`key` as S3 writes it, URL-encoded."""
    return {
        "Records": [
            {
                "eventVersion": "2.1",
                "eventSource": "aws:s3",
                "awsRegion": "eu-west-1",
                "eventTime": TIME,
                "eventName": name,
                "userIdentity": {"principalId": "AWS:AIDAINPONIXQXHT3IKHL2"},
                "requestParameters": {"sourceIPAddress": "205.255.255.255"},
                "responseElements": {"x-amz-request-id": "D82B88E5F771F645"},
                "s3": {
                    "s3SchemaVersion": "1.0",
                    "configurationId": "lakerunner",
                    "bucket": {"name": bucket, "ownerIdentity": {}, "arn": f"arn:aws:s3:::{bucket}"},
                    "object": {
                        "key": key,
                        "size": 1024,
                        "eTag": "d41d8cd98f00b204e9800998ecf8427e",
                        "versionId": "096fKKXTRTtl3on89fVO.nfljtsv6qko",
                        "sequencer": "0055AED6DCD90281E5",
                    },
                },
            }
        ]
    }


def minio(key: str) -> dict[str, Any]:
    """To a webhook or to Kafka; MinIO encodes the slashes of keys as well."""
    return {
        "EventName": "s3:ObjectCreated:Put",
        "Key": "raw/otel-raw/acme/eu/logs/a b.binpb",
        "Records": [
            {
                "eventVersion": "2.0",
                "eventSource": "minio:s3",
                "awsRegion": "",
                "eventTime": TIME,
                "eventName": "s3:ObjectCreated:Put",
                "userIdentity": {"principalId": "minio"},
                "requestParameters": {"accessKey": "minio", "region": "", "sourceIPAddress": "172.18.0.1"},
                "responseElements": {"x-amz-request-id": "159FB6B233B08AF0"},
                "s3": {
                    "s3SchemaVersion": "1.0",
                    "configurationId": "Config",
                    "bucket": {
                        "name": "raw",
                        "ownerIdentity": {"principalId": "minio"},
                        "arn": "arn:aws:s3:::raw",
                    },
                    "object": {
                        "key": key,
                        "size": 7,
                        "eTag": "b7ce786cd89b182bfd5ae765557bbc37",
                        "contentType": "application/octet-stream",
                        "userMetadata": {"content-type": "application/octet-stream"},
                        "sequencer": "159FB6B233C9F8A0",
                    },
                },
                "source": {"host": "172.18.0.1", "port": "", "userAgent": "MinIO (linux; amd64)"},
            }
        ],
    }


def sns(message: object, kind: str = "Notification") -> dict[str, Any]:
    found = {
        "Type": kind,
        "MessageId": "da41e39f-ea4d-435a-b922-c6aae3915ebe",
        "TopicArn": "arn:aws:sns:eu-west-1:123456789012:raw",
        "Subject": "Amazon S3 Notification",
        "Message": message if isinstance(message, str) else json.dumps(message),
        "Timestamp": TIME,
        "SignatureVersion": "1",
        "Signature": "EXAMPLEpH+...",
        "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-x.pem",
    }
    if kind == "SubscriptionConfirmation":
        found["Token"] = "2336412f37"
        found["SubscribeURL"] = (
            "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=2336412f37"
        )
    return found


def eventbridge(key: str, kind: str = "Object Created") -> dict[str, Any]:
    """`key` as it is: EventBridge does not encode it."""
    return {
        "version": "0",
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": kind,
        "source": "aws.s3",
        "account": "111122223333",
        "time": "2026-01-02T03:04:05Z",
        "region": "eu-west-1",
        "resources": ["arn:aws:s3:::raw"],
        "detail": {
            "version": "0",
            "bucket": {"name": "raw"},
            "object": {
                "key": key,
                "size": 5,
                "etag": "b1946ac92492d2347c6235b4d2611184",
                "version-id": "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e",
                "sequencer": "617f08299329d189",
            },
            "request-id": "N4N7GDK58NMKJ12R",
            "requester": "123456789012",
            "source-ip-address": "1.2.3.4",
            "reason": "PutObject",
        },
    }


def gcs_object(key: str) -> dict[str, Any]:
    return {
        "kind": "storage#object",
        "id": f"raw/{key}/1767323045000000",
        "selfLink": "https://www.googleapis.com/storage/v1/b/raw/o/x",
        "name": key,
        "bucket": "raw",
        "generation": "1767323045000000",
        "metageneration": "1",
        "contentType": "application/octet-stream",
        "timeCreated": TIME,
        "updated": TIME,
        "storageClass": "STANDARD",
        "size": "2048",
        "md5Hash": "XUFAKrxLKna5cZ2REBfFkg==",
        "crc32c": "mnG7TA==",
        "etag": "CJjTrqqqrJIDEAE=",
    }


def gcs_message(key: str, event: str = "OBJECT_FINALIZE", *, payload: bool = True) -> dict[str, Any]:
    """One Pub/Sub message, as `pull` returns it and as push puts it in its envelope."""
    attributes = {
        "notificationConfig": "projects/_/buckets/raw/notificationConfigs/3",
        "eventType": event,
        "payloadFormat": "JSON_API_V1" if payload else "NONE",
        "bucketId": "raw",
        "objectId": key,
        "objectGeneration": "1767323045000000",
        "eventTime": "2026-01-02T03:04:05.000000Z",
    }
    found: dict[str, Any] = {
        "attributes": attributes,
        "messageId": "2070443601311540",
        "message_id": "2070443601311540",
        "publishTime": "2026-01-02T03:04:06.500Z",
    }
    if payload:
        found["data"] = base64.b64encode(json.dumps(gcs_object(key)).encode()).decode()
    return found


def gcs_push(key: str, event: str = "OBJECT_FINALIZE", *, payload: bool = True) -> dict[str, Any]:
    return {
        "message": gcs_message(key, event, payload=payload),
        "subscription": "projects/myproject/subscriptions/mysubscription",
    }


def blob(key: str, kind: str = "Microsoft.Storage.BlobCreated", api: str = "PutBlockList") -> dict[str, Any]:
    """In Event Grid's schema."""
    return {
        "topic": "/subscriptions/{id}/resourceGroups/Storage/providers/Microsoft.Storage/storageAccounts/acc",
        "subject": f"/blobServices/default/containers/raw/blobs/{key}",
        "eventType": kind,
        "eventTime": "2026-01-02T03:04:05.0000000Z",
        "id": "831e1650-001e-001b-66ab-eeb76e069631",
        "data": {
            "api": api,
            "clientRequestId": "6d79dbfb-0e37-4fc4-981f-442c9ca65760",
            "requestId": "831e1650-001e-001b-66ab-eeb76e000000",
            "eTag": "0x8D4BCC2E4835CD0",
            "contentType": "text/plain",
            "contentLength": 524288,
            "blobType": "BlockBlob",
            "url": "https://acc.blob.core.windows.net/raw/x",
            "sequencer": "00000000000004420000000000028963",
            "storageDiagnostics": {"batchId": "b68529f3-68cd-4744-baa4-3c0498ec19f0"},
        },
        "dataVersion": "",
        "metadataVersion": "1",
    }


def cloud_event(key: str, api: str = "PutBlob") -> dict[str, Any]:
    """The same as CloudEvents 1.0."""
    found = blob(key, api=api)
    return {
        "source": found["topic"],
        "subject": found["subject"],
        "type": found["eventType"],
        "time": found["eventTime"],
        "id": found["id"],
        "data": found["data"],
        "specversion": "1.0",
    }


def validation(code: str) -> dict[str, Any]:
    return {
        "id": "2d1781af-3a4c-4d7c-bd0c-e34b19da4e66",
        "topic": "/subscriptions/xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
        "subject": "",
        "data": {
            "validationCode": code,
            "validationUrl": "https://rp-eastus2.eventgrid.azure.net:553/eventsubscriptions/x/validate?id=1",
        },
        "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
        "eventTime": "2026-01-02T03:04:05.0000000Z",
        "metadataVersion": "1",
        "dataVersion": "1",
    }
