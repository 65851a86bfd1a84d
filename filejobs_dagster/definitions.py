"""What Dagster loads: it wires, and does nothing else.

It loads whatever `filejobs.yaml` holds. With mistakes in it the jobs refuse to start and the
freshness sensor raises the mistakes: a broken file must not silence the watchdog.
"""

import gc

import dagster as dg

# Nothing that is imported is garbage, and Python looks through all that Dagster has brought to find
# that out: a fifth of what our part of each process's start takes.
_looking = gc.isenabled()
gc.disable()
try:
    from filejobs_dagster.orchestration.build import build_definitions, end_in_a_sentence
    from filejobs_dagster.orchestration.storage import heed_sigterm, outlive_outages
    from filejobs_dagster.settings import read_settings
finally:
    if _looking:
        gc.enable()

# A code server opens no instance of its own, so it is told here.
heed_sigterm()
outlive_outages()

_loaded = read_settings()
end_in_a_sentence(_loaded)

defs: dg.Definitions = build_definitions(_loaded)
