"""The collectors: a declaration each, plain Python without Dagster. See docs/adding-a-job.md."""
