"""Authentication, errors, request parsing, health and metrics serve every API dialect alike."""
