"""The storage of the embedded cluster: objects by kind, events, the file of a saved lab."""
