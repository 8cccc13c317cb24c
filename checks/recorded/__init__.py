"""What a real KAI was recorded to do, and runs of kailab that are held against it: cases, divisions, grouping, scenarios."""
