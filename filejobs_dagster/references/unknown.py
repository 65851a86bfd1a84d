"""The one answer of a source that could not be asked."""

from __future__ import annotations


class ReferencesUnknown(Exception):
    """Whether keys are referenced could not be established: nothing may be deleted.

    The message names the source, what it returned and what to do; `__cause__` has the error.
    """
