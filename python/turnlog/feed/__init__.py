"""Following events: one session or a store, in this process or another one, stored or ephemeral."""
