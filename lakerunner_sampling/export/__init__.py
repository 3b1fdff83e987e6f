"""Kept traces leave for Datadog, OTLP or files: payloads, senders and their retries."""
