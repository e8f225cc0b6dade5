"""A session's events as the history a model provider accepts: every call paired with exactly one result. Pure."""
