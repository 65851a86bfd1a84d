"""What collectors of rows with bytes have in common: candidates, claims, bytes, and the books.

A collector reads candidates oldest first, claims them in batches by a write that repeats every
predicate, and lets their bytes go through the gate once the claim is committed. `Collection` is
that run, `Removal` the bytes, `Bookkeeping` what is written down, `Totals` the numbers.
"""
