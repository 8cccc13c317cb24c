"""The scheduler's configuration: ``config_file`` reads KAI's file and its ``kailab:`` section, ``policies`` loads the policies in it."""
