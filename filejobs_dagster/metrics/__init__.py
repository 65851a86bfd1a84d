"""Numbers for Prometheus: read anew for each scrape, and absent when they cannot be read."""
