"""PostgreSQL and S3 servers from wheels, for the demo, the proofs and the tests.

Nothing here is for production: both servers accept anybody who reaches them. Both listen where
only this machine can reach them, and both end with the process that started them.
"""

from filejobs_dagster.embedded.environment import EmbeddedExtraMissingError, clean_environment
from filejobs_dagster.embedded.postgres import EmbeddedPostgres, EmbeddedPostgresError
from filejobs_dagster.embedded.s3 import EmbeddedS3, EmbeddedS3Error, EmbeddedS3Process

__all__ = [
    "EmbeddedExtraMissingError",
    "EmbeddedPostgres",
    "EmbeddedPostgresError",
    "EmbeddedS3",
    "EmbeddedS3Error",
    "EmbeddedS3Process",
    "clean_environment",
]
