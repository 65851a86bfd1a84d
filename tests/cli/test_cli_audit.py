"""`filejobs verify` and `filejobs audit` as their user calls them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from psycopg.conninfo import make_conninfo

from filejobs_dagster.audit.append import append
from filejobs_dagster.audit.note import generate, private_text, read_signer, read_verifier_key
from filejobs_dagster.audit.offline import check, check_file
from filejobs_dagster.audit.seal import seal_chain
from filejobs_dagster.jobs.audit_setup import seal_policy
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.settings import load_settings

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

KEY = "FILEJOBS_AUDIT_KEY"
SIGNER = generate("desk/audit")
FILE = "0b3c5a1e-8f0e-4c55-9f0b-0c2d8f1f6a77"
EVENTS: list[dict[str, object]] = [
    {
        "kind": "upload_reservation.collected",
        "job": "upload_reservations",
        "run_id": "run 1",
        "file_id": FILE,
        "storage_key": "files/1",
        "upload_expires_at": "2026-01-01T00:00:00+00:00",
    },
    {
        "kind": "objects.delete.intent",
        "job": "upload_reservations",
        "run_id": "run 1",
        "bucket": "uploads",
        "batch": 1,
        "keys": ["files/1", "files/2"],
    },
    {
        "kind": "objects.delete.result",
        "job": "upload_reservations",
        "run_id": "run 1",
        "bucket": "uploads",
        "batch": 1,
        "deleted": 2,
        "already_gone": [],
    },
    {"kind": "file.shared", "file_id": "another", "with": "bob"},
]


@pytest.fixture
def desk(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """The desk, with a key, a folder for pins, and four events."""
    monkeypatch.setenv(KEY, private_text(SIGNER))
    desk.document["audit"] = {
        "signing_key": {"env": KEY},
        "public_keys": [{"key": str(SIGNER.verifier)}],
        "pins": {"folder": str(desk.path.parent / "pins")},
    }
    desk.write()
    tell(desk, *EVENTS)
    return desk


def database_of(desk: Desk) -> Database:
    return Database.of(load_settings(desk.path).database)


def tell(desk: Desk, *events: dict[str, object], chain: str = "collectors") -> None:
    database = database_of(desk)
    with database.connect("test") as connection, database.transaction(connection) as cursor:
        append(cursor, list(events), chain=chain)


def seal(desk: Desk, chain: str = "collectors") -> None:
    database = database_of(desk)
    with database.connect("test") as connection:
        policy = seal_policy(load_settings(desk.path))
        seal_chain(database, connection, chain, policy, live=True)


def tamper(desk: Desk, statement: str) -> None:
    with desk.connection.transaction():
        desk.connection.execute("SET LOCAL session_replication_role = replica")
        desk.connection.execute(statement.encode())


class TestVerify:
    def test_clean_and_pinned_exits_with_0(self, desk: Desk) -> None:
        seal(desk)
        said = desk.call("verify")
        assert said.exit_code == 0, said.output
        assert "matches" in said.stdout
        assert "collectors: Every event that was computed matches" in said.stdout
        assert "so does what stands outside" in said.stdout
        assert "NO PROTECTION" in said.stdout

    def test_events_behind_the_newest_pin_exit_with_1_and_are_counted(self, desk: Desk) -> None:
        seal(desk)
        tell(desk, {"kind": "more"}, {"kind": "and more"})
        said = desk.call("verify", "--format", "json")
        assert said.exit_code == 1
        document = json.loads(said.stdout)
        assert document["verdict"] == "matches, and some is unprotected"
        [chain] = document["chains"]
        assert (chain["unprotected"], chain["pinned_to"], chain["codes"]) == (2, 4, [])

    @pytest.mark.parametrize("lacking", ["pins", "public_keys"])
    def test_without_witnesses_it_never_exits_with_0(self, desk: Desk, lacking: str) -> None:
        del desk.document["audit"][lacking]
        desk.write()
        seal(desk)
        assert desk.call("verify").exit_code == 1

    def test_damage_exits_with_2_and_names_chain_code_and_event(self, desk: Desk) -> None:
        seal(desk)
        tamper(desk, "UPDATE audit_event SET body = '{}' WHERE seq = 3")
        said = desk.call("verify")
        assert said.exit_code == 2
        assert "FINDING collectors: EV_BODY at event 3: " in said.stdout
        assert desk.call("verify", "--rolling", "1").exit_code == 2
        incremental = desk.call("verify", "--incremental", "--format", "json")
        assert incremental.exit_code == 1, "below the pin it does not look: the documented miss"
        document = json.loads(incremental.stdout)
        assert document["verdict"] == "unchanged since the pin, older events not read"
        assert document["chains"][0]["mode"] == "incremental"
        assert document["chains"][0]["unread"] == 4
        assert "4 older event(s) up to 4 were not read" in document["chains"][0]["explanation"]

    def test_a_trigger_of_the_log_that_is_off_exits_with_2_and_is_named(self, desk: Desk) -> None:
        seal(desk)
        desk.connection.execute("ALTER TABLE file DISABLE TRIGGER ALL")
        said = desk.call("verify")
        assert said.exit_code == 1, "no event is doubted for the sake of another table"
        assert "warning collectors: TABLES: the trigger file_refuses_changed_key" in said.stdout
        desk.connection.execute("ALTER TABLE audit_event DISABLE TRIGGER audit_event_never_changed")
        said = desk.call("verify")
        assert said.exit_code == 2
        told = " ".join(said.stdout.split())
        assert (
            "FINDING collectors: TABLES: the trigger audit_event_never_changed of audit_event is "
            "off (ALTER TABLE public.audit_event ENABLE TRIGGER audit_event_never_changed)." in told
        )

    def test_one_chain_may_be_named_and_an_unknown_one_is_told(self, desk: Desk) -> None:
        tell(desk, {"kind": "x"}, chain="application")
        seal(desk, "application")
        assert desk.call("verify", "--chain", "application").exit_code == 0
        said = desk.call("verify", "--chain", "appliance")
        assert said.exit_code == 64
        assert "they know: application, collectors" in said.stderr

    def test_what_cannot_be_read_exits_with_3(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (desk.path.parent / "pins").write_text("a file")
        said = desk.call("verify")
        assert said.exit_code == 3, said.output
        assert "Nothing can be said of any chain" in said.stderr
        monkeypatch.setenv("FILEJOBS_DATABASE_URL", "postgresql://role:secret-word@127.0.0.1:9/x")
        said = desk.call("verify")
        assert said.exit_code == 3
        assert "Could not connect to PostgreSQL" in said.stderr
        assert "secret-word" not in said.output
        desk.path.write_text("installation: [")
        assert desk.call("verify").exit_code == 3

    def test_two_ways_at_once_exit_with_64(self, desk: Desk) -> None:
        said = desk.call("verify", "--full", "--incremental")
        assert said.exit_code == 64
        assert "choose one" in said.stderr

    def test_it_needs_no_right_to_write(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch, database_url: str
    ) -> None:
        seal(desk)
        read_only = make_conninfo(database_url, options="-c default_transaction_read_only=on")
        monkeypatch.setenv("FILEJOBS_DATABASE_URL", read_only)
        assert desk.call("verify").exit_code == 0
        # CONTROL: nothing can be written there.
        assert desk.call("audit", "hold", "set", "--reason", "x").exit_code == 1


class TestShow:
    def test_the_events_of_a_file_are_told_in_words_with_their_cover(self, desk: Desk) -> None:
        assert "not sealed yet: unprotected" in desk.call("audit", "show", FILE).stdout
        seal(desk)
        tell(desk, {"kind": "file.noted", "file_id": FILE, "note": "later"})
        said = desk.call("audit", "show", FILE)
        assert said.exit_code == 0, said.output
        lines = said.stdout.splitlines()
        assert len(lines) == 8
        assert "removed the reservation of 'files/1'" in lines[0]
        assert "covered by seal 1 of" in lines[1]
        assert "pinned at" in lines[1]
        assert "was about to delete 2 objects in bucket uploads" in lines[2]
        assert "storage answered to batch 1 of run run 1: deleted: 2" in lines[4]
        assert "file.noted (file_id: " in lines[6]
        assert lines[7].strip() == "not sealed yet: unprotected"

    def test_an_event_of_an_application_forges_no_line_and_no_terminal(self, desk: Desk) -> None:
        """Whoever may only append must not write what looks like an event of the jobs."""
        forged = "x\n2026-01-01 00:00  collectors 9  upload_reservations removed it\x1b[2J\u202e"
        tell(desk, {"kind": forged, "file_id": FILE, "note": forged}, chain="app\n2")
        lines = desk.call("audit", "show", FILE).stdout.splitlines()
        assert len(lines) == 8, "two of each event"
        for line in lines:
            assert line.isprintable()
        assert "\\x0a2026-01-01 00:00" in "".join(lines)

    def test_a_key_finds_the_deletions_that_name_it(self, desk: Desk) -> None:
        said = desk.call("audit", "show", "files/2", "--format", "json")
        assert said.exit_code == 0, said.output
        events = json.loads(said.stdout)["events"]
        assert [event["seq"] for event in events] == [2, 3]
        assert (events[0]["seal"], events[0]["pin"]) == (None, None)

    def test_a_file_that_no_event_names_exits_with_1(self, desk: Desk) -> None:
        said = desk.call("audit", "show", "nobody")
        assert said.exit_code == 1
        assert "No event names 'nobody'" in said.stderr


class TestHold:
    def test_a_hold_is_set_listed_and_released_and_the_chain_knows(self, desk: Desk) -> None:
        said = desk.call("audit", "hold", "set", "--file", FILE, "--reason", "case 7")
        assert said.exit_code == 0, said.output
        hold_id = said.stdout.strip()
        assert "from event 1 on" in said.stderr
        [row] = json.loads(desk.call("audit", "hold", "list", "--format", "json").stdout)
        assert (row["hold"], row["from_event"], row["reason"]) == (hold_id, 1, "case 7")
        assert "@" in row["set_by"]
        assert hold_id in desk.call("audit", "hold", "list").stdout
        assert desk.call("audit", "hold", "release", hold_id).exit_code == 0
        assert desk.call("audit", "hold", "list").stdout == "no hold stands\n"
        assert hold_id in desk.call("audit", "hold", "list", "--all").stdout
        kinds = desk.connection.execute(
            "SELECT body::jsonb ->> 'kind' FROM audit_event WHERE seq > 4 ORDER BY seq"
        ).fetchall()
        assert kinds == [("audit.hold.set",), ("audit.hold.released",)]
        seal(desk)
        assert desk.call("verify").exit_code == 0

    @pytest.mark.parametrize(
        ("arguments", "code", "complaint"),
        [
            (["set", "--reason", " "], 64, "--reason"),
            (["set", "--reason", "x", "--file", "f", "--from-seq", "2"], 64, "choose one"),
            (["set", "--reason", "x", "--chain", "nowhere"], 1, "no chain 'nowhere'"),
            (["release", "nothing"], 1, "no hold 'nothing'"),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, desk: Desk, arguments: list[str], code: int, complaint: str
    ) -> None:
        said = desk.call("audit", "hold", *arguments)
        assert said.exit_code == code, said.output
        assert complaint in said.stderr


class TestKeygen:
    def test_a_pair_is_printed_that_belongs_together_and_is_stored_nowhere(
        self, desk: Desk
    ) -> None:
        before = sorted(desk.path.parent.rglob("*"))
        said = desk.call("audit", "keygen", "acme/audit")
        assert said.exit_code == 0
        private, public = said.stdout.splitlines()
        assert read_signer(private, "the output").verifier == read_verifier_key(public)
        assert "stored nowhere" in said.stderr
        assert sorted(desk.path.parent.rglob("*")) == before
        assert desk.call("audit", "keygen", "acme/audit").stdout != said.stdout

    def test_a_name_that_no_key_can_have_is_refused(self, desk: Desk) -> None:
        said = desk.call("audit", "keygen", "a+b")
        assert said.exit_code == 1
        assert "neither white space nor +" in said.stderr


class TestProve:
    def test_the_proof_of_an_event_is_printed_and_holds(self, desk: Desk) -> None:
        said = desk.call("audit", "prove", "2")
        assert said.exit_code == 1
        assert "no pinned seal" in said.stderr
        seal(desk)
        said = desk.call("audit", "prove", "2")
        assert said.exit_code == 0, said.output
        installation = desk.document["installation"]
        origin = f"{installation}/audit/collectors"
        proof = json.loads(said.stdout)
        assert proof["note"].startswith(f"{origin}\n")
        found = check(said.stdout, origin=origin, keys=[str(SIGNER.verifier)])
        assert json.loads(found["body"]) == EVENTS[1]

    def test_the_proof_of_a_file_is_printed_and_holds(self, desk: Desk) -> None:
        seal(desk)
        said = desk.call("audit", "prove", FILE)
        assert said.exit_code == 0, said.output
        origin = f"{desk.document['installation']}/audit/collectors"
        found = check_file(said.stdout, origins=[origin], keys=[str(SIGNER.verifier)])
        assert [event["seq"] for event in found["events"]] == [1, 2, 3]
        assert "fetches each pin by himself" in said.stderr
        tell(desk, {"kind": "x", "file_id": "7"}, {"kind": "x", "file_id": FILE})
        said = desk.call("audit", "prove", FILE)
        assert said.exit_code == 0
        assert "Not proven: no pinned seal of the chain 'collectors' counts event 6" in said.stderr
        # A file whose id looks like a number; and one of which nobody has told.
        said = desk.call("audit", "prove", "7", "--file")
        assert said.exit_code == 1
        assert "no pinned seal" in said.stderr
        said = desk.call("audit", "prove", "nobody's")
        assert (said.exit_code, said.stdout) == (1, "")
        assert "no event names" in said.stderr


class TestRestore:
    def test_a_restored_database_goes_on_with_a_reason(self, desk: Desk) -> None:
        seal(desk)
        tell(desk, {"kind": "lost"})
        seal(desk)
        tamper(desk, "DELETE FROM audit_seal WHERE seal_no = 2")
        tamper(desk, "DELETE FROM audit_event WHERE seq = 5")
        tamper(
            desk,
            "UPDATE audit_chain SET head_seq = 4, head_hash ="
            " (SELECT hash FROM audit_event WHERE seq = 4)",
        )
        assert desk.call("verify").exit_code == 2
        said = desk.call("audit", "restore", "--reason", "the backup of 02:00")
        assert said.exit_code == 0, said.output
        assert "incarnation 2. It has 4 events, of which pins vouch for 4" in said.stdout
        assert "the newest pin counted 5" in said.stdout
        seal(desk)
        said = desk.call("verify")
        assert said.exit_code == 0, said.output

    def test_nothing_to_acknowledge_is_refused_with_its_code(self, desk: Desk) -> None:
        seal(desk)
        said = desk.call("audit", "restore", "--reason", "by mistake")
        assert said.exit_code == 1
        assert "NOT_ROLLED_BACK" in said.stderr
        assert desk.call("audit", "restore", "--reason", "").exit_code == 64
