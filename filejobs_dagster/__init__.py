"""Collectors for what a file feature leaves behind, run by Dagster, and the proof that they ran."""
