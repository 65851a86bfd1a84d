"""Sources of references: which keys are in use, by exact bytes, and never inferred from silence.

Begin with `check.py`, which asks all sources for single keys, and `bulk.py`, which reads them
whole. What comes near to a key is judged in `near.py`, what stands in no source is searched for in
`elsewhere/`, and `measured.py` and `plans.py` say which source is not to be believed.
"""
