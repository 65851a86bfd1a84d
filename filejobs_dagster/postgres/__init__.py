"""PostgreSQL: connections, the database's clock, locks and migrations."""
