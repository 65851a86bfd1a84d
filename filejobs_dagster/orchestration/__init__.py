"""Dagster: ops and jobs, schedules, sensors and resources. Thin: what happens is elsewhere."""
