"""The real jobs on a copy: rows in a PostgreSQL and empty objects in a store made for it.

`taking` reads the operator's database and bucket, and is all that knows them. `there` works in a
process of its own, which is given the copy and nothing that leads back.
"""
