"""The gRPC server: calls, connections over HTTP/2, the health service."""
