"""The collectors: one module per job, plain Python without Dagster."""
