"""Which certificates a download trusts: the system's and the well-known ones together.

A network that inspects TLS has its own certificate in the system's store; a bare container has no store.
"""

from __future__ import annotations

import ssl
from pathlib import Path

SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)


def trusted() -> ssl.SSLContext:
    import certifi

    context = ssl.create_default_context()
    for bundle in (certifi.where(), *SYSTEM_BUNDLES):
        if Path(bundle).is_file():
            context.load_verify_locations(bundle)
    return context
