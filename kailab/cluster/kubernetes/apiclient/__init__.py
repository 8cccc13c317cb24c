"""The client of a real API server: connections, requests with their retries and refusals, discovery, lists."""
