"""One module a job: the config of its op, and the op. Add a job here."""

from collections.abc import Callable

import dagster as dg

from filejobs_dagster.orchestration.ops.audit_seal import audit_seal_op
from filejobs_dagster.orchestration.ops.audit_trim import audit_trim_op
from filejobs_dagster.orchestration.ops.audit_verify import audit_verify_op
from filejobs_dagster.orchestration.ops.deleted_files import deleted_files_op
from filejobs_dagster.orchestration.ops.multipart_uploads import multipart_uploads_op
from filejobs_dagster.orchestration.ops.run_history import run_history_op
from filejobs_dagster.orchestration.ops.storage_orphans import storage_orphans_op
from filejobs_dagster.orchestration.ops.table_retention import table_retention_op
from filejobs_dagster.orchestration.ops.upload_cleanup import upload_cleanup_op
from filejobs_dagster.orchestration.ops.upload_reservations import upload_reservations_op
from filejobs_dagster.registry import BY_NAME, RegisteredJob
from filejobs_dagster.settings import Loaded

OPS: dict[str, Callable[[Loaded, RegisteredJob], dg.OpDefinition]] = {
    "upload_reservations": upload_reservations_op,
    "storage_orphans": storage_orphans_op,
    "upload_cleanup": upload_cleanup_op,
    "multipart_uploads": multipart_uploads_op,
    "deleted_files": deleted_files_op,
    "table_retention": table_retention_op,
    "audit_trim": audit_trim_op,
    "audit_seal": audit_seal_op,
    "audit_verify": audit_verify_op,
    "run_history": run_history_op,
}

if set(OPS) != set(BY_NAME):
    raise RuntimeError("the registry names other jobs than orchestration/ops builds")
