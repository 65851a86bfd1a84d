"""An event that was edited by somebody who can do everything in the database, and has the key."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from filejobs_dagster.audit.append import append
from filejobs_dagster.audit.note import TrustedKey, TrustedKeys, generate
from filejobs_dagster.audit.pins.places import S3Pins
from filejobs_dagster.audit.seal import SealPolicy, seal_chain
from filejobs_dagster.audit.verify import VerifyPolicy, verify_chain
from filejobs_dagster.prove.evidence import Claim, Evidence, FactValue, Side, tidy

if TYPE_CHECKING:
    from filejobs_dagster.audit.verify import Verification
    from filejobs_dagster.prove.stage import Scene, Stage

CHAIN = "prove"
ORIGIN = "prove/audit"
EVENTS = 20
EDITED = 7

EDIT = tidy(
    f"""
    UPDATE audit_event
       SET body = '{{"event":"something else"}}'
     WHERE chain_id = '{CHAIN}' AND seq = {EDITED}
    """  # noqa: S608 (constants of this module)
)
COMPUTE_ANEW = tidy(
    f"""
    DO $$
    DECLARE
        event  record;
        before bytea := (SELECT genesis FROM audit_chain WHERE chain_id = '{CHAIN}');
        inner_hash bytea;
        own    bytea;
    BEGIN
        FOR event IN SELECT * FROM audit_event WHERE chain_id = '{CHAIN}' ORDER BY seq LOOP
            inner_hash := sha256(convert_to(event.body, 'UTF8'));
            own := sha256(convert_to('filejobs/audit/event' || chr(10), 'UTF8')
                          || int2send(event.alg) || sha256(convert_to(event.chain_id, 'UTF8'))
                          || int8send(event.seq) || timestamptz_send(event.recorded_at)
                          || before || inner_hash);
            UPDATE audit_event SET body_hash = inner_hash, prev_hash = before, hash = own
             WHERE chain_id = event.chain_id AND seq = event.seq;
            before := own;
        END LOOP;
        UPDATE audit_chain SET head_hash = before WHERE chain_id = '{CHAIN}';
    END
    $$
    """  # noqa: S608 (constants of this module)
)
FORGET_THE_SEALS = f"DELETE FROM audit_seal WHERE chain_id = '{CHAIN}'"  # noqa: S608

# Whoever owns the tables may do this; no superuser is needed.
_WITHOUT_TRIGGERS = (
    "ALTER TABLE audit_event DISABLE TRIGGER USER",
    "ALTER TABLE audit_seal DISABLE TRIGGER USER",
    # Between two updates, an event has the parent that another one had a moment ago.
    "ALTER TABLE audit_event DROP CONSTRAINT IF EXISTS audit_event_one_child_per_parent",
)
# A verifier looks at triggers and constraints, too.
_AS_IF_NOTHING_HAD_HAPPENED = (
    "ALTER TABLE audit_event ENABLE TRIGGER USER",
    "ALTER TABLE audit_seal ENABLE TRIGGER USER",
    (
        "ALTER TABLE audit_event ADD CONSTRAINT audit_event_one_child_per_parent"
        " UNIQUE (chain_id, prev_hash)"
    ),
)


def _demonstrate(stage: Stage) -> Evidence:
    signer = generate("prove/seal")
    store = stage.store()
    pins = S3Pins(store.client, store.name, prefix="pins/")
    trusted = TrustedKeys((TrustedKey(signer.verifier),))
    outside = VerifyPolicy(ORIGIN, trusted, pins)
    inside = replace(outside, pins=None)
    with stage.scene() as scene, scene.connect("auditor") as connection:
        with scene.database.transaction(connection) as cursor:
            append(cursor, [{"event": str(number)} for number in range(EVENTS)], chain=CHAIN)
        seal_chain(scene.database, connection, CHAIN, SealPolicy(outside, (signer,)), live=True)
        untouched = verify_chain(scene.database, connection, CHAIN, outside)
        _tamper(scene)
        # The stolen key makes the seal anew, over what the chain says now.
        seal_chain(scene.database, connection, CHAIN, SealPolicy(inside, (signer,)), live=True)
        alone = verify_chain(scene.database, connection, CHAIN, inside)
        pinned = verify_chain(scene.database, connection, CHAIN, outside)
    keys = [entry.key for entry in pins.list(f"{ORIGIN}/")]
    return Evidence(
        Side(
            "check chain, seals and signatures, all of which are in the database",
            f"{EDIT};\n\n{COMPUTE_ANEW};\n\n{FORGET_THE_SEALS}",
            _facts(alone),
            lost=alone.clean,
        ),
        Side(
            "compare with the pin as well, a copy of the seal outside of the database",
            "PutObject with If-None-Match: *, before the edit\nListObjectVersions, GetObject:\n"
            + "\n".join(keys),
            (("before the edit it said", untouched.verdict), *_facts(pinned)),
            lost=pinned.clean or not untouched.clean,
        ),
    )


def _tamper(scene: Scene) -> None:
    for statement in (
        *_WITHOUT_TRIGGERS,
        EDIT,
        COMPUTE_ANEW,
        FORGET_THE_SEALS,
        *_AS_IF_NOTHING_HAD_HAPPENED,
    ):
        scene.rows(statement)


def _facts(found: Verification) -> tuple[tuple[str, FactValue], ...]:
    return (
        ("event that was edited", EDITED),
        ("events computed again", found.rows),
        ("signatures were checked", found.signatures),
        ("the check says", found.verdict),
        ("what it found", ", ".join(sorted(found.codes)) or "nothing"),
    )


CLAIM = Claim(
    "audit-edited",
    "An edited audit event is found although chain, seals and signatures were made anew.",
    _demonstrate,
)
