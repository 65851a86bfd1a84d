"""Sends deletions, and believes only what the server says of each target.

PRIVATE to the gate: nothing else in the package may delete objects. Use `Gate.delete` for rows that
are gone and `Gate.remove` for orphans: both prove first that a key is owned, unprotected and not
referenced.

What an answer to DeleteObjects says of each target is read here: servers word it in many ways.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, ParamValidationError
from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_random_exponential

from filejobs_dagster.book.outcomes import (
    AdmissionFailed,
    DeletionStopped,
    Fate,
    ItemOutcome,
    Outcomes,
    ProofRefused,
    StorageRejected,
)
from filejobs_dagster.objects.deletion_mode import abilities_of
from filejobs_dagster.objects.errors import (
    CONDITION_NOT_MET,
    CREDENTIALS_OVER,
    TOO_BUSY,
    TRY_AGAIN,
    StorageError,
    concerns_every_request,
    described,
    may_yet_be_done,
    status_of,
    storage_error,
)
from filejobs_dagster.objects.heads import Absent, look_at_targets
from filejobs_dagster.objects.judgement import HOLDS
from filejobs_dagster.objects.targets import (
    MOST_KEYS_PER_REQUEST,
    Supervisor,
    Target,
    Unsupervised,
    Verdict,
    needs_single_delete,
)
from filejobs_dagster.references.operator import ReferencesUnknown
from filejobs_dagster.text import sanitize_exception

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import DeleteObjectOutputTypeDef, DeleteObjectsOutputTypeDef
    from tenacity.wait import wait_base

# What an answer to DeleteObjects says of each target: servers word it in many ways.


class BatchAnswer:
    """An answer of 200, which says nothing yet: each key has its own success or error.

    Attributes:
        nameless: An error without its key, which any of the targets may have met.
    """

    def __init__(self, answer: DeleteObjectsOutputTypeDef) -> None:
        """Read it. Some servers leave Key out, and some VersionId."""
        self._refused = {
            (error.get("Key"), error.get("VersionId") or None): storage_error(
                error.get("Code"), error.get("Message")
            )
            for error in answer.get("Errors", [])
        }
        self._confirmed = {
            (entry.get("Key"), entry.get("VersionId") or None): entry.get("DeleteMarker", False)
            for entry in answer.get("Deleted", [])
        }
        self.nameless = self._refused.get((None, None))

    def refusal_of(self, target: Target) -> StorageError | None:
        """Why it was refused; an error weighs more than a success of the same key."""
        named = self._refused.get((target.key, target.version))
        return named or self._refused.get((target.key, None))

    def success_of(self, target: Target) -> Fate | None:
        """Deleted or marked; None where the answer does not name it."""
        marker = self._confirmed.get((target.key, target.version))
        return None if marker is None else target.fate_when_gone(marker=marker)

    def credentials_over(self) -> StorageError | None:
        """An error after which no request will succeed, if there is one."""
        return next((it for it in self._refused.values() if it.code in CREDENTIALS_OVER), None)


MOST_TRIES = 4
"""How often a key is tried whose failure may pass; botocore's own tries come on top."""

BACK_OFF: wait_base = wait_random_exponential(multiplier=0.5, max=8)
"""Seconds between tries: random up to 0.5, 1, 2, … so that collectors do not move in step."""

FEWEST_TO_FLY = 16
"""Fewer requests for one object each go one after the other."""

MOST_FLYING = 16
"""So many of those are under way at once, where one after the other would wait for the network."""

GONE = frozenset({"NoSuchKey", "NoSuchVersion"})
"""Codes that say there was no such object. A bare 404 is not enough: proxies send it, too."""

ONE_BAD_KEY = frozenset({"MalformedXML", "KeyTooLongError", "InvalidObjectName"})
"""Codes of a whole batch that one of its keys may have caused."""

_NOT_KNOWN = frozenset({"405", "501", "MethodNotAllowed", "NotImplemented"})

_MANY_REFUSED = _NOT_KNOWN | frozenset(
    {"400", "InvalidArgument", "InvalidRequest", "MissingContentMD5"}
)


SENT_BEFORE = ", and a request that was sent before may still be carried out"


def refuses_many(error: ClientError) -> bool:
    """Whether a server answers so that does not know requests for many objects, `POST ?delete`.

    It does not say whether one key of the request is at fault, or the request as such.
    """
    return described(error).code in _MANY_REFUSED or status_of(error) in {
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.NOT_IMPLEMENTED,
    }


def proof_refused(error: Exception, so_far: Outcomes[Any]) -> ProofRefused:
    """Say that what must be proven could not be."""
    return ProofRefused(
        "Deleting stopped, because what must hold before bytes go was not proven: "
        + sanitize_exception(error),
        so_far,
    )


class Deleting:
    """Sends the deletions of some targets; `verdicts` has the fate of each as it becomes known.

    Attributes:
        verdicts: One entry a target, so that none can come to stand in two groups.
    """

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        targets: Sequence[Target],
        *,
        before_request: Callable[[], None],
        wait: wait_base = BACK_OFF,
        supervisor: Supervisor | None = None,
        alone_when_refused: bool = True,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            client: From `make_client`.
            bucket: The bucket's name.
            targets: What is to go. Repeated ones count once.
            before_request: Called right before every request that deletes, each of botocore's own
                tries included; an exception of it stops the deletion.
            wait: Between tries of keys whose failure may pass.
            supervisor: Asked about the targets before each request, for callers whose decision
                may grow old while the server is slow.
            alone_when_refused: True to go on with a request for each where the server refuses
                requests for many; False to stop there, for those who want to know whether it does.
        """
        self._client = client
        self._bucket = bucket
        self._targets = tuple(dict.fromkeys(targets))
        self._before_request = before_request
        self._wait = wait
        self._supervisor = supervisor or Unsupervised()
        self._alone_when_refused = alone_when_refused
        self._server = abilities_of(client, bucket)
        self.verdicts: dict[Target, Verdict] = {}
        self._thread = threading.get_ident()
        self._passing: dict[Target, StorageError] = {}
        # What was asked for in a request that the server may still carry out.
        self._unsettled: set[Target] = set()
        # Of the request at work: what it names, and how often botocore has sent it.
        self._asked: Sequence[Target] = ()
        self._sent = 0
        self._busy_in_a_row = 0
        # Of the threads beside ours: what each sends, until when its questions and its proof hold,
        # and what of that botocore has sent already.
        self._beside: dict[int, Target] = {}
        self._holds_until: dict[Target, float] = {}
        self._sent_beside: set[Target] = set()

    def run(self, *, one_by_one: bool = False) -> dict[Target, Verdict]:
        """Send everything, and return the verdicts.

        Args:
            one_by_one: A request for each, for servers that obey conditions only there. So it is
                in any case where the server refuses requests for many.

        Raises:
            StorageRejected: A whole request failed, also after its tries.
            ProofRefused: `before_request` raised.
        """
        one_by_one = one_by_one or (self._alone_when_refused and not self._server.bulk)
        alone = [it for it in self._targets if one_by_one or needs_single_delete(it.key)]
        together = set(self._targets).difference(alone)
        with self._proving_each_attempt():
            for chunk in _chunks([target for target in self._targets if target in together]):
                self._delete_chunk(chunk)
            again = self._fly(alone) if len(alone) >= FEWEST_TO_FLY else alone
            for target in again:
                self._delete_one(target)
        return self.verdicts

    def outcomes(self) -> Outcomes[str]:
        """What became of each key so far; for targets without versions."""
        known = (_outcome_of(target, verdict) for target, verdict in self.verdicts.items())
        rest = (it for it in self._targets if it not in self.verdicts)
        return Outcomes((*known, *(ItemOutcome(it.key, Fate.UNANSWERED) for it in rest)))

    @contextmanager
    def _proving_each_attempt(self) -> Iterator[None]:
        """Ask for the proof where botocore sends: its own retries are new requests, too."""
        events: Any = self._client.meta.events
        names = ("before-send.s3.DeleteObjects", "before-send.s3.DeleteObject")
        for name in names:
            events.register_first(name, self._prove)
        try:
            yield
        finally:
            for name in names:
                events.unregister(name, self._prove)

    # One by one -------------------------------------------------------------------------------

    def _delete_one(self, target: Target) -> None:
        self._with_tries([target], self._ask_for_one)

    def _fly(self, targets: Sequence[Target]) -> list[Target]:
        """Send each after its own questions and its own proof, while others are under way.

        Returns:
            What is left to send one after the other: all that is, once one was turned away.
        """
        again: list[Target] = []
        flying: dict[Future[Callable[[], DeleteObjectOutputTypeDef]], Target] = {}

        def land(*, until: int) -> None:
            while len(flying) > until:
                for landed in wait(flying, return_when=FIRST_COMPLETED).done:
                    # Sixteen that were turned away at once are one complaint.
                    self._busy_in_a_row = 0
                    again.extend(self._read_one(flying.pop(landed), landed.result()))

        with ThreadPoolExecutor(MOST_FLYING) as pool:
            try:
                for place, target in enumerate(targets):
                    land(until=MOST_FLYING - 1)
                    if again:
                        land(until=0)
                        return [*again, *targets[place:]]
                    self._supervisor.pause(1)
                    if not self._not_withdrawn([target], again=False):
                        continue
                    self._asked, self._sent = [target], 0
                    self._holds_until[target] = time.monotonic() + HOLDS
                    try:
                        self._prove()
                    except _Withdrawn:
                        again.append(target)
                        continue
                    flying[pool.submit(self._send_one, target)] = target
                land(until=0)
            except DeletionStopped as stopped:
                self._land_after_all(flying)
                stopped.so_far = self.outcomes()
                raise
        return again

    def _send_one(self, target: Target) -> Callable[[], DeleteObjectOutputTypeDef]:
        """Send it from a thread beside ours; what is returned gives the answer, or raises."""
        thread = threading.get_ident()
        self._beside[thread] = target
        try:
            answer = self._client.delete_object(Bucket=self._bucket, **target.arguments())
        except Exception as error:  # noqa: BLE001 (it is raised where it can be answered)
            failed = error

            def fail() -> DeleteObjectOutputTypeDef:
                raise failed

            return fail
        else:
            return lambda: answer
        finally:
            self._sent_beside.discard(target)
            self._holds_until.pop(target, None)
            del self._beside[thread]

    def _land_after_all(
        self, flying: Mapping[Future[Callable[[], DeleteObjectOutputTypeDef]], Target]
    ) -> None:
        """Write down what became of requests that were under way when it all stopped."""
        for landed in wait(flying).done:
            target = flying[landed]
            try:
                self._read_one(target, landed.result())
            except DeletionStopped:
                self._unsettled.add(target)

    def _ask_for_one(self, targets: Sequence[Target]) -> list[Target]:
        (target,) = targets
        return self._read_one(
            target,
            lambda: self._client.delete_object(Bucket=self._bucket, **target.arguments()),
        )

    def _read_one(
        self, target: Target, answered: Callable[[], DeleteObjectOutputTypeDef]
    ) -> list[Target]:
        """Settle it by the answer; returned when its failure may pass."""
        try:
            answer = answered()
        except ProofRefused:
            raise
        except _Withdrawn:
            return [target]
        except (ParamValidationError, UnicodeError) as error:
            # An empty key, or one that is no UTF-8: S3 has no such key, and nothing was sent.
            self._settle(target, Fate.FAILED, described(error))
        except ClientError as error:
            if self._is_busy(error):
                return self._turned_away([target], error)
            if concerns_every_request(error):
                raise self._rejected(error) from error
            return self._consider(target, described(error), status=status_of(error))
        except Exception as error:
            raise self._rejected(error) from error
        else:
            marker = answer.get("DeleteMarker", False)
            self._settle(target, target.fate_when_gone(marker=marker))
        return []

    # In batches -------------------------------------------------------------------------------

    def _delete_chunk(self, chunk: Sequence[Target]) -> None:
        if self._alone_when_refused and not self._server.bulk:
            for target in chunk:
                self._delete_one(target)
            return
        for target in chunk:
            if not target.key:
                # The empty key would make botocore refuse the whole batch.
                self._delete_one(target)
        self._with_tries([target for target in chunk if target.key], self._ask_for_batch)

    def _ask_for_batch(self, targets: Sequence[Target]) -> list[Target]:
        try:
            answer = self._client.delete_objects(
                Bucket=self._bucket, Delete={"Objects": [target.entry() for target in targets]}
            )
        except ProofRefused:
            raise
        except _Withdrawn:
            return list(targets)
        except ClientError as error:
            if self._is_busy(error):
                return self._turned_away(targets, error)
            refused = self._alone_when_refused and refuses_many(error)
            if not refused and described(error).code not in ONE_BAD_KEY:
                raise self._rejected(error) from error
            self._delete_each(targets, error if refused else None)
            return []
        except Exception as error:
            raise self._rejected(error) from error
        return self._read_answer(targets, answer)

    def _delete_each(self, targets: Sequence[Target], refused: ClientError | None) -> None:
        """A request for each of a batch; `refused` is what a server without batches answered."""
        code = "" if refused is None else described(refused).code
        any_gone = False
        for target in targets:
            self._delete_one(target)
            verdict = self.verdicts[target]
            any_gone = any_gone or verdict.fate not in (Fate.FAILED, Fate.KEPT, Fate.CHANGED)
            if refused is not None and not any_gone and verdict.code == code in _NOT_KNOWN:
                # It knows no deletion at all.
                del self.verdicts[target]
                raise self._rejected(refused) from refused
        if refused is not None and not any(self.verdicts[it].fate is Fate.FAILED for it in targets):
            # It was the request and none of its keys: the next one would be refused, too.
            self._server.bulk = False

    def _read_answer(
        self, targets: Sequence[Target], answer: DeleteObjectsOutputTypeDef
    ) -> list[Target]:
        """Settle each target of the batch; return those whose failure may pass."""
        said = BatchAnswer(answer)
        again: list[Target] = []
        unnamed: list[Target] = []
        for target in targets:
            error, success = said.refusal_of(target), said.success_of(target)
            if error is not None:
                again += self._consider(target, error)
            elif success is not None:
                self._settle(target, success)
            else:
                unnamed.append(target)
        again += self._confirm(unnamed, said.nameless)
        hopeless = said.credentials_over()
        if hopeless is not None:
            raise self._stopped(StorageRejected, self._why_rejected(hopeless))
        return again

    def _confirm(self, targets: Sequence[Target], refused: StorageError | None) -> list[Target]:
        """Look at what the answer did not name, instead of believing that all went well."""
        try:
            seen = look_at_targets(self._client, self._bucket, targets)
        except StorageRejected as error:
            raise self._rejected(error.__cause__ or error) from error
        again: list[Target] = []
        for target, sighting in seen.items():
            if isinstance(sighting, Absent):
                self._settle(target, target.fate_when_gone(marker=sighting.delete_marker))
            elif refused is not None and refused.code in TRY_AGAIN:
                again += self._consider(target, refused)
            else:
                doubt = StorageError("unconfirmed", _doubt(refused, sighting))
                self._unsettled.add(target)
                self._settle(target, Fate.FAILED, doubt)
        return again

    # Common -----------------------------------------------------------------------------------

    def _with_tries(
        self, targets: Sequence[Target], ask: Callable[[Sequence[Target]], list[Target]]
    ) -> None:
        pending = list(targets)
        tried = False

        def once() -> list[Target]:
            nonlocal pending, tried
            if pending:
                # Before the last look, which would be old after a long pause.
                self._supervisor.pause(len(pending))
            pending = self._not_withdrawn(pending, again=tried)
            tried = True
            if pending:
                self._asked, self._sent = pending, 0
                pending = ask(pending)
            return pending

        Retrying(
            stop=stop_after_attempt(MOST_TRIES),
            wait=self._wait,
            retry=retry_if_result(bool),
            retry_error_callback=lambda _state: None,
        )(once)
        for target in pending:
            last = self._passing[target]
            reason = StorageError(last.code, f"{last.message} (after {MOST_TRIES} tries)")
            self._settle(target, Fate.FAILED, reason)

    def _not_withdrawn(self, targets: Sequence[Target], *, again: bool) -> list[Target]:
        """Ask the supervisor once more, and leave out what must not go any more."""
        withdrawn = self._ask_supervisor(targets, again=again)
        for target, verdict in withdrawn.items():
            self.verdicts[target] = self._as_it_was_sent(target, verdict)
        return [target for target in targets if target not in withdrawn]

    def _ask_supervisor(
        self, targets: Sequence[Target], *, again: bool
    ) -> Mapping[Target, Verdict]:
        if not targets:
            return {}
        try:
            return self._supervisor.withdrawn(targets, again=again)
        except ReferencesUnknown as error:
            raise self._stopped(AdmissionFailed, str(error)) from error
        except StorageRejected as error:
            raise self._stopped(StorageRejected, error.reason) from error

    def _prove(self, **_event: object) -> None:
        thread = threading.get_ident()
        if thread != self._thread:
            flying = self._beside.get(thread)
            # None: another deletion on the same client, which has its own proof.
            if flying in self._sent_beside:
                # botocore tries again by itself, and nothing was proven since.
                self._unsettled.add(flying)
                raise _Withdrawn
            if flying is None:
                return
            if time.monotonic() >= self._holds_until[flying]:
                # Between its proof and this moment botocore may have waited for credentials.
                raise _Withdrawn
            self._sent_beside.add(flying)
            return
        self._sent += 1
        if self._sent > 1:
            # botocore does not say what the server answered, or whether it did.
            self._unsettled.update(self._asked)
            # It tries again by itself, and meanwhile something may have changed.
            self._ask_again()
        began = time.monotonic()
        try:
            self._before_request()
        except Exception as error:
            raise proof_refused(error, self.outcomes()) from error
        if time.monotonic() - began >= HOLDS:
            # A slow proof makes the question that came before it an old one.
            self._ask_again()

    def _ask_again(self) -> None:
        """Ask once more for the keys of this request, and take it back when one is to stay."""
        if self._ask_supervisor(self._asked, again=True):
            passing = StorageError("Withdrawn", "some keys of the request were not to go any more")
            self._passing.update(dict.fromkeys(self._asked, passing))
            raise _Withdrawn

    def _is_busy(self, error: ClientError) -> bool:
        return self._supervisor.patient and described(error).code in TOO_BUSY

    def _turned_away(self, targets: Sequence[Target], error: ClientError) -> list[Target]:
        """A whole request that the server was too busy for: slow down, and try it again."""
        self._busy_in_a_row += 1
        if self._busy_in_a_row >= MOST_TRIES:
            raise self._rejected(error) from error
        self._supervisor.throttled()
        self._unsettled.update(targets)
        self._passing.update(dict.fromkeys(targets, described(error)))
        return list(targets)

    def _consider(self, target: Target, error: StorageError, status: int = 0) -> list[Target]:
        """Settle a refused target, or return it when its failure may pass."""
        if may_yet_be_done(error) or may_yet_be_done(StorageError(str(status), "")):
            self._unsettled.add(target)
        if error.code in TOO_BUSY:
            self._supervisor.throttled()
        if error.code in TRY_AGAIN:
            self._passing[target] = error
            return [target]
        fate = Fate.FAILED
        if error.code in GONE:
            fate = Fate.ALREADY_GONE
        elif error.code in CONDITION_NOT_MET and target.etag is not None:
            fate = Fate.CHANGED
        self._settle(target, fate, error)
        return []

    def _settle(self, target: Target, fate: Fate, error: StorageError | None = None) -> None:
        self._busy_in_a_row = 0
        verdict = Verdict(fate) if error is None else Verdict(fate, str(error), error.code)
        self.verdicts[target] = self._as_it_was_sent(target, verdict)

    def _as_it_was_sent(self, target: Target, verdict: Verdict) -> Verdict:
        """Add whether the object that is there may still go."""
        is_there = verdict.fate not in (Fate.DELETED, Fate.MARKED, Fate.ALREADY_GONE)
        return (
            replace(verdict, unsettled=True) if is_there and target in self._unsettled else verdict
        )

    def _rejected(self, error: BaseException) -> DeletionStopped:
        return self._stopped(StorageRejected, self._why_rejected(described(error)))

    def _why_rejected(self, error: StorageError) -> str:
        return (
            f"A whole request to delete was rejected by storage, in bucket {self._bucket!r}: "
            f"{error}. {_advice(self._bucket, error)}"
        )

    def _stopped(self, kind: type[DeletionStopped], reason: str) -> DeletionStopped:
        return kind(reason, self.outcomes())


def _outcome_of(target: Target, verdict: Verdict) -> ItemOutcome[str]:
    reason = verdict.reason
    if verdict.unsettled and verdict.fate is Fate.KEPT:
        reason += SENT_BEFORE
    return ItemOutcome(target.key, verdict.fate, reason, unsettled=verdict.unsettled)


class _Withdrawn(Exception):
    """A request was not sent again, because some of its targets must not go any more."""


def _advice(bucket: str, error: StorageError) -> str:
    if error.code == "AccessDenied":
        # The doctor deletes nothing, and so cannot tell that this right is missing.
        return (
            f"Deleting needs s3:DeleteObject on the objects (arn:aws:s3:::{bucket}/*); Ceph asks "
            f"for it on the bucket itself (arn:aws:s3:::{bucket}), too, before it reads a batch."
        )
    return "See what `filejobs doctor` says of the bucket."


def _doubt(refused: StorageError | None, sighting: object) -> str:
    if refused is not None:
        return f"the answer did not name the key, and said {refused}"
    if isinstance(sighting, StorageError):
        return f"the answer did not name the key, and HEAD said {sighting}"
    return "the answer did not name the key, and its object is still there"


def _chunks(targets: Sequence[Target]) -> Iterator[Sequence[Target]]:
    for start in range(0, len(targets), MOST_KEYS_PER_REQUEST):
        yield targets[start : start + MOST_KEYS_PER_REQUEST]
