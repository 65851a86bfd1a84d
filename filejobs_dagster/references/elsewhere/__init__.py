"""Whether a candidate's name stands anywhere else in the databases: `search.py` begins here."""
