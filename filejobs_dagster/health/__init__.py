"""Whether the processes of an installation answer, asked cheaply: for containers and supervisors.

Alive means that the process itself answers; one that does not is to be restarted. Ready means that
it can also do its work; one that is not must wait for something else, and a restart would not
help. Nothing here imports Dagster, whose import alone takes seconds of a processor.
"""
