"""The jobs of a pass: read files, scan segments, compact fragments. Descriptors travel, rows stay in files."""
