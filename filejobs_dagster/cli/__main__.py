"""`python -m filejobs_dagster.cli`, where the command is not on the path."""

from __future__ import annotations

from filejobs_dagster.cli.main import run

if __name__ == "__main__":
    run()
