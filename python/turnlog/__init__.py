"""A local-first storage engine for AI-agent sessions: the public names, and nothing else."""

__all__: list[str] = []
