"""Large blobs of a store, named after their digest: stored once, read by range, checked, swept by command only."""
