"""Finished segments as independent zstd blocks: the same logical bytes, proved before the raw ones go."""
