"""What Dagster loads: it wires, and does nothing else.

It loads whatever `filejobs.yaml` holds. With mistakes in it the jobs refuse to start and the
freshness sensor raises the mistakes: a broken file must not silence the watchdog.
"""

import dagster as dg

from filejobs_dagster.orchestration.build import build_definitions
from filejobs_dagster.settings import read_settings

defs: dg.Definitions = build_definitions(read_settings())
