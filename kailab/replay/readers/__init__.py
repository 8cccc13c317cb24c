"""Readers of trace formats. ``lines`` reads CSV files and their fields; each other module turns the records of its
source into jobs."""
