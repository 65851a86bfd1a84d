"""Signed notes against the published example, and everything that is no signed note."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.audit.note import (
    BadSignature,
    MalformedNote,
    NotSigned,
    TrustedKey,
    TrustedKeys,
    UnusableKey,
    generate,
    open_note,
    private_text,
    read_signer,
    read_verifier_key,
    sign_note,
    signer_from_file,
    text_of,
)
from filejobs_dagster.audit.verify.verdict import signature_problem

if TYPE_CHECKING:
    from pathlib import Path

# The example of Go's package golang.org/x/mod/sumdb/note.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETERS_KEY = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
ENOCH = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
TEXT = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
PETER_SIGNED = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZ"
    "SNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
ENOCH_SIGNED = (
    "— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ov"
    "TG01oOTGwnWLox33WWd1RvMc+QQ=\n"
)
NOTE = TEXT + "\n" + PETER_SIGNED


def test_the_published_note_opens_with_the_published_key() -> None:
    key = read_verifier_key(PETER)
    assert str(key) == PETER
    opened = open_note(NOTE, [key])
    assert (opened.text, opened.signers, opened.unknown) == (TEXT, (key,), 0)


def test_the_published_private_key_makes_the_published_signature() -> None:
    signer = read_signer(PETERS_KEY, "this test")
    assert str(signer.verifier) == PETER
    assert private_text(signer) == PETERS_KEY
    assert sign_note(TEXT, [signer]) == NOTE


def test_signatures_of_unknown_keys_are_ignored_and_counted() -> None:
    both = NOTE + ENOCH_SIGNED
    assert open_note(both, [read_verifier_key(PETER)]).unknown == 1
    assert len(open_note(both, [read_verifier_key(PETER), read_verifier_key(ENOCH)]).signers) == 2
    with pytest.raises(NotSigned):
        open_note(NOTE, [read_verifier_key(ENOCH)])


def test_a_known_key_that_fails_rejects_the_note_whoever_else_signed() -> None:
    forged = NOTE + ENOCH_SIGNED.replace("5n2t", "5n2u")
    with pytest.raises(BadSignature):
        open_note(forged, [read_verifier_key(PETER), read_verifier_key(ENOCH)])
    # It is another's business while the key is not known.
    assert open_note(forged, [read_verifier_key(PETER)]).unknown == 1


@pytest.mark.parametrize(
    "note",
    [
        TEXT,
        TEXT + "\n",
        NOTE[:-1],
        TEXT + "\n" + PETER_SIGNED.replace("—", "-"),
        TEXT + "\n" + PETER_SIGNED.replace("x08", "!!!"),
        TEXT + "\n— PeterNeumann AAAA\n",
        TEXT + "\n— Peter+Neumann x08goAAA\n",
        TEXT + "\n" + PETER_SIGNED + "more\n",
        NOTE.replace("answer", "ans\x00wer"),
        NOTE.replace("answer", "ans\twer"),
        TEXT + "\n" + PETER_SIGNED * 101,
        "x" * 1_000_001 + "\n\n" + PETER_SIGNED,
    ],
)
def test_what_is_no_signed_note_is_refused(note: str) -> None:
    with pytest.raises(MalformedNote):
        open_note(note, [read_verifier_key(PETER)])


def test_a_changed_text_is_refused() -> None:
    with pytest.raises(BadSignature):
        open_note(NOTE.replace("answer", "question"), [read_verifier_key(PETER)])


def test_a_text_with_empty_lines_stays_whole() -> None:
    signer = generate("k")
    note = sign_note("a\n\nb\n", [signer])
    assert open_note(note, [signer.verifier]).text == "a\n\nb\n"
    assert text_of(note) == "a\n\nb\n"
    assert text_of("unsigned\n") == "unsigned\n"


@pytest.mark.parametrize("text", ["no end", "\x07\n"])
def test_a_text_that_cannot_be_a_note_is_not_signed(text: str) -> None:
    with pytest.raises(ValueError, match="newline"):
        sign_note(text, [generate("k")])


@pytest.mark.parametrize(
    "text", ["", "a+b", PETER.replace("c74f20a3", "c74f20a4"), PETER[:-8], "x+00000000+!!!!"]
)
def test_what_is_no_verifier_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"key|base64"):
        read_verifier_key(text)


def test_no_error_and_no_text_shows_the_private_key() -> None:
    secret = PETERS_KEY.rpartition("+")[2]
    for text in (PETERS_KEY[:-4], PETERS_KEY.replace("c74f20a3", "c74f20a4"), secret):
        with pytest.raises(UnusableKey) as raised:
            read_signer(text, "the variable K")
        assert secret[:20] not in str(raised.value)
    signer = read_signer(PETERS_KEY, "K")
    assert secret[:10] not in repr(signer)
    with pytest.raises(TypeError):
        pickle.dumps(signer)


def test_a_key_in_a_file_is_its_owner_s_alone(tmp_path: Path) -> None:
    file = tmp_path / "key"
    with pytest.raises(UnusableKey, match="FileNotFound"):
        signer_from_file(file)
    file.write_text(PETERS_KEY)
    file.chmod(0o640)
    with pytest.raises(UnusableKey, match="chmod 600"):
        signer_from_file(file)
    file.chmod(0o600)
    assert signer_from_file(file).name == "PeterNeumann"


def test_a_key_signs_only_the_seals_of_its_interval() -> None:
    """Otherwise whoever has today's key could rewrite what last year's key sealed."""
    old, new = generate("log"), generate("log")
    trusted = TrustedKeys(
        (TrustedKey(old.verifier, 1, 10), TrustedKey(new.verifier, 10)), unsigned_through=2
    )
    by_old, by_new = sign_note("t\n", [old]), sign_note("t\n", [new])
    assert signature_problem(by_old, 10, trusted) is None
    assert signature_problem(by_new, 10, trusted) is None
    assert signature_problem(by_old, 11, trusted) is not None
    assert signature_problem(by_new, 9, trusted) is not None
    assert signature_problem("t\n", 2, trusted) is None
    assert signature_problem("t\n", 3, trusted) is not None
    assert signature_problem(by_new, 2, trusted) is not None


def test_a_name_with_a_plus_makes_no_key() -> None:
    with pytest.raises(UnusableKey):
        generate("a+b")
