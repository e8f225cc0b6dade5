"""The projection of a store in SQLite: lists, lookups and kept states, made from the logs, not asked for the truth."""
