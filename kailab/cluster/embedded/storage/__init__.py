"""What the API server of the embedded cluster keeps: objects by kind, events, the file of a saved lab."""
