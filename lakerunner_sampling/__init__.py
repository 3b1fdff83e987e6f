"""The tail-sampling selector keeps whole traces that matter, reading spans from an Iceberg table."""
