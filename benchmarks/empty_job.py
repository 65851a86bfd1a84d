"""The least that `dagster job execute` can execute: what Dagster itself costs."""

import dagster as dg


@dg.op
def nothing() -> None:
    """Do nothing."""


@dg.job(executor_def=dg.in_process_executor)
def empty() -> None:
    """One op that does nothing."""
    nothing()


defs = dg.Definitions(jobs=[empty])
