"""Forms of traces, each read line by line into jobs."""
