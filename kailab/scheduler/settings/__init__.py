"""The scheduler's configuration file: KAI's own form, and the ``kailab:`` section beside it."""
