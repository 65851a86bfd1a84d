"""Starting a job over HTTP, for an external cron: `filejobs serve-trigger`.

A small ASGI app that an operator lets listen on loopback. What holds:

- Before a token is known everything but `/healthz` is 401: no body is read, no database asked.
- A run is started as its schedule would start it: over everything that is due, in the mode and
  with the limits of the settings. More than that (`{"mode": "live"}`) needs a token that may.
- Nothing is started twice: the look for an active run, the count of starts and the start itself
  happen under one lock in the database, so that several processes share them.
- An answer holds a status, a run's id and times; never an error's text. That is in the log.
"""

from __future__ import annotations
