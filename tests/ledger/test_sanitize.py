"""Secrets never leave, and everything else stays readable.

The secrets are made up, and put together from pieces so that scanners of repositories stay quiet.
"""

from __future__ import annotations

import base64
import json
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filejobs_dagster.text import (
    HIDDEN,
    LONGEST_READ,
    bounded,
    printable,
    sanitize,
    sanitize_exception,
)

WORD = "Tr0ub4dor" + "-x3Kq9"
KEY_ID = "AKI" + "A" + "IOSFODNN7EXAMPLE"
SECRET_KEY = "wJalrXUtnFEMI/" + "K7MDENG+bPxRfiCY" + "EXAMPLEKEY"
JWT_BODY = "eyJzdWIiOiIxMjM0NTY3ODkwIn0" + "." + "dBjftJeZ4CVPmB92K27uhbUJU1p1r"
JWT = "ey" + "JhbGciOiJIUzI1NiJ9." + JWT_BODY
PEM_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEF"
DASHES = "-" * 5
BASIC = base64.b64encode(f"robot:{WORD}".encode()).decode()
SIGNATURE = "fe5f80f77d5fa3beca038a248ff027d0" + "445342fe2855ddc963176630326f1024"
SLACK_PATH = "T0000AAAA/B0000BBBB/" + "XXXXYYYYZZZZ1234abcd5678"
DISCORD_PATH = "123456789012345678/" + "abcDEF_ghi-JKL" * 4
SIGNED_WITH = f"Credential={KEY_ID}/20240501/s3, SignedHeaders=host, Signature={SIGNATURE}"

# Repeated a hundred thousand times, each makes a careless expression look again and again.
HOSTILE = ["a", "=", ":", "/", "-", "a=", "://", "://a:", '://"', "password=", 'password="']
HOSTILE += ["password='\\", "token:", "eyJ", "eyJaaaaaa.", "%3a%2f%2f", "%3a", "@", "--a-", "\\"]
HOSTILE += ["x-amz-", "<token>", "xoxb-", "authorization:"]
HOSTILE += [
    "Bearer ",
    "access ",
    "\x00",
    "authorization: basic ",
    f"{DASHES}BEGIN PRIVATE KEY{DASHES}",
]

# The text, and what must not be left of it.
SECRETS: list[tuple[str, str]] = [
    (f'could not connect: "postgresql://app:{WORD}@db.example:5432/files"', WORD),
    (f"postgres://app:{WORD}@db.example/files?sslmode=require", WORD),
    ("postgresql://app:p@ss/w0rd@rd!@db.example/files", "w0rd"),
    ("postgresql://app:p%40ss%2Fw0rd@db.example/files", "w0rd"),
    ("postgresql://app:qu'ote7w0rd@db.example/files", "7w0rd"),
    ('postgresql://app:qu"ote7w0rd@db.example/files', "7w0rd"),
    ("postgresql://app:1234/5678w0rd?#@db.example/files", "5678w0rd"),
    (quote(f"postgresql://app:{WORD}@db.example/files", safe=""), WORD),
    (f"postgresql://app:{WORD}@db1.example:5432,db2.example:5432/files", WORD),
    (f"redis://:{WORD}@cache.example:6379/0", WORD),
    (f"rediss://default:{WORD}@cache.example:6380", WORD),
    (f"amqp://guest:{WORD}@queue.example//", WORD),
    (f"mongodb+srv://root:{WORD}@cluster.example/admin", WORD),
    (f"http://robot:{WORD}@proxy.example:3128", WORD),
    (f"fatal: https://{WORD}@git.example/repository.git not found", WORD),
    (f"host=db.example user=app password={WORD} dbname=files", WORD),
    (f"host=db.example password='{WORD}' dbname=files", WORD),
    ("host=db password = 'it\\'s w0rdy' dbname=files", "w0rdy"),
    ("host=db password=a,b&c;w0rd) dbname=files", "w0rd"),
    (f"sslpassword={WORD}", WORD),
    (f"export PGPASSWORD={WORD}", WORD),
    (f"The AWS Access Key Id {KEY_ID} does not exist", KEY_ID),
    (f"ASI{KEY_ID[3:]}".replace("ASIA", "ASI" + "A"), "ASI" + KEY_ID[3:]),
    (f"aws_secret_access_key = {SECRET_KEY}", SECRET_KEY),
    (f"AWS_SECRET_ACCESS_KEY={SECRET_KEY}", SECRET_KEY),
    (f"<SecretAccessKey>{SECRET_KEY}</SecretAccessKey>", SECRET_KEY),
    (f"{{'SecretAccessKey': '{SECRET_KEY}', 'Expiration': 'soon'}}", SECRET_KEY),
    (f"aws_session_token=IQoJb3JpZ2luX2Vj{WORD}==", WORD),
    (f"<SessionToken>IQoJb3JpZ2luX2Vj{WORD}</SessionToken>", WORD),
    (f"x-amz-security-token:IQoJb3JpZ2luX2Vj{WORD}", WORD),
    (f"GET https://b.example/k?X-Amz-Date=1&X-Amz-Signature={SIGNATURE} 403", SIGNATURE),
    (f"https://b.example/k?X-Amz-Credential={KEY_ID[4:]}%2F20240501%2Fs3", KEY_ID[4:]),
    (f"https://b.example/k?X-Amz-Security-Token=IQoJb3{WORD}&X-Amz-Expires=60", WORD),
    (f"https://b.example/k?Expires=1&AWSAccessKeyId={KEY_ID[4:]}", KEY_ID[4:]),
    ("https://b.example/k?Expires=1&Signature=vjbyPxybdZaNmGa%2ByT27", "vjbyPxybdZaNmGa"),
    (f"https://acc.blob.example/c/b?sv=2022&sig={SIGNATURE}%3D", SIGNATURE),
    (f"https://storage.example/b?GoogleAccessId=robot-{WORD}&Expires=1", WORD),
    (f"https://storage.example/b?X-Goog-Signature={SIGNATURE}", SIGNATURE),
    (f"redirect=https%3A%2F%2Fb.example%2Fk%3FX-Amz-Signature%3D{SIGNATURE}", SIGNATURE),
    (f"Authorization: Bearer {WORD}{WORD}", WORD),
    (f"{{'Authorization': 'Basic {BASIC}'}}", BASIC),
    (f"[('authorization', 'Bearer {WORD}{WORD}')]", WORD),
    (f"Authorization: AWS4-HMAC-SHA256 {SIGNED_WITH}", SIGNATURE),
    (f"curl answered 401 to bearer {WORD}{WORD}", WORD),
    (f"Cookie: session={WORD}; theme=dark", WORD),
    (f"the id token was {JWT}", JWT_BODY),
    (f"https://hooks.slack.com/services/{SLACK_PATH}", SLACK_PATH[-20:]),
    (f"https://discord.com/api/webhooks/{DISCORD_PATH}", DISCORD_PATH[-20:]),
    (f"https://discordapp.com/api/v10/webhooks/{DISCORD_PATH}", DISCORD_PATH[-20:]),
    ("xox" + "b-1234567890-" + "AbCdEfGhIjKl", "AbCdEfGhIjKl"),
    ("gh" + "p_" + "a1B2c3D4" * 5, "a1B2c3D4"),
    ("github" + "_pat_" + "11ABCDEFG0_" + "a1B2c3D4" * 5, "a1B2c3D4"),
    ("glp" + "at-" + "a1B2c3D4" * 3, "a1B2c3D4"),
    ("sk_" + "live_" + "a1B2c3D4" * 3, "a1B2c3D4"),
    (
        f"{DASHES}BEGIN RSA PRIVATE KEY{DASHES}\n{PEM_BODY}\n{DASHES}END RSA PRIVATE KEY{DASHES}",
        PEM_BODY,
    ),
    (f"{DASHES}BEGIN PRIVATE KEY{DASHES}\\n{PEM_BODY}\\n{PEM_BODY}", PEM_BODY),
    (f"{PEM_BODY}\n{PEM_BODY}\n{DASHES}END EC PRIVATE KEY{DASHES}", PEM_BODY),
    (f"https://api.example/v1?token={WORD}", WORD),
    (f"api_key: {WORD}", WORD),
    (f'{{"client_secret": "{WORD}", "host": "x"}}', WORD),
    (json.dumps({"body": json.dumps({"token": WORD})}), WORD),
    (f"Config(password='{WORD}', host='x')", WORD),
    (f"Config(password=b'{WORD}')", WORD),
    (f"secret={WORD}", WORD),
    (f"db_passwd => {WORD}", WORD),
    (f"mysqldump --password {WORD} files", WORD),
    (f"AccountName=acc;AccountKey={SECRET_KEY}==;EndpointSuffix=x", SECRET_KEY),
]

INNOCENT = [
    'relation "file" does not exist',
    'connection to server at "10.0.0.1", port 5432 failed: Connection refused',
    'password authentication failed for user "app"',
    'FATAL:  role "app" does not exist',
    "An error occurred (AccessDenied) when calling the DeleteObjects operation: Access Denied",
    "SlowDown: Please reduce your request rate.",
    'Could not connect to the endpoint URL: "http://127.0.0.1:9000/acme-uploads?delete"',
    'syntax error at or near "selct"\nLINE 1: selct storage_key from file\n        ^',
    "canceling statement due to statement timeout",
    'duplicate key value violates unique constraint "file_storage_key_unique"',
    "Unexpected token: }",
    "HTTP Basic authentication is not supported",
    "NoSuchKey: files/2024/05/report (final).pdf",
    "files/token/secret/password.txt was kept: referenced by avatars",
    "postgresql://app@db.example/files has no password",
    "see https://docs.example/guide#tokens and write to ops@example.com",
    "Ünïcödé keys such as files/日本語.txt and files/🙂 stay\n\tindented",
    "3 of 10000 objects could not be deleted: 2 x AccessDenied, 1 x InternalError",
    "the secret of the bucket stands in the variable FILEJOBS_S3_SECRET_ACCESS_KEY",
    "ETag d41d8cd98f00b204e9800998ecf8427e, size 1234, sig=11",
    "s3://acme-uploads/files/a b+c%2Fd.txt",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_is_taken_out_and_its_place_is_marked(text: str, secret: str) -> None:
    assert secret in text
    clean = sanitize(text)
    assert secret not in clean
    assert HIDDEN in clean


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    assert len(SECRETS) >= 40
    assert len({text for text, _ in SECRETS}) == len(SECRETS)


@pytest.mark.parametrize("text", INNOCENT)
def test_an_innocent_text_stays_as_it_is(text: str) -> None:
    assert sanitize(text) == text


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_is_taken_out_in_the_middle_of_a_long_text(text: str, secret: str) -> None:
    surrounded = "it was " * 200 + "\n" + text + "\n" + "and then " * 200
    assert secret not in sanitize(surrounded, limit=100_000)


def test_what_helps_the_reader_stays_beside_the_hidden_secret() -> None:
    text = f'could not connect: "postgresql://app:{WORD}@db.example:5432/files": refused'
    clean = sanitize(text)
    assert clean == f'could not connect: "postgresql://app:{HIDDEN}@db.example:5432/files": refused'


@pytest.mark.parametrize(
    "value", ["hunter2!", "a b/c+d", 'q"uo\\te', "p\xe4ss", "tab\tinside", "%x&y"]
)
@pytest.mark.parametrize(
    "spell",
    [
        str,
        quote_plus,
        lambda value: quote(value, safe=""),
        lambda value: quote(value, safe="").lower(),
        json.dumps,
        repr,
    ],
)
def test_a_known_secret_is_taken_out_in_every_spelling(value: str, spell: object) -> None:
    assert callable(spell)
    spelled = spell(value)
    clean = sanitize(f"before {spelled} after", known=[value])
    assert spelled.strip("'\"") not in clean
    assert clean.startswith("before ")
    assert clean.endswith(" after")


def test_a_known_value_of_three_characters_does_not_tear_words_apart() -> None:
    assert sanitize("the app says dev", known=["dev", "", "app"]) == "the app says dev"


def test_the_longer_of_two_known_secrets_goes_first() -> None:
    assert sanitize("x longer-secret y", known=["long", "longer-secret"]) == f"x {HIDDEN} y"


def test_a_known_secret_with_undecodable_bytes_is_taken_out_and_nothing_fails() -> None:
    assert sanitize("x ab\udc80cd y", known=["ab\udc80cd"]) == f"x {HIDDEN} y"


def test_control_characters_become_escapes_because_a_text_column_cannot_hold_them() -> None:
    assert sanitize("a\x00b\x1b[31m\r\n\tc\udc80\u202e") == "a\\x00b\\x1b[31m\\r\n\tc\\udc80\\u202e"


def test_a_long_text_keeps_its_head_and_its_tail() -> None:
    clean = sanitize("HEAD " + "x" * 10_000 + " TAIL", limit=500)
    assert len(clean) == 500
    assert clean.startswith("HEAD ")
    assert clean.endswith(" TAIL")
    assert "characters left out" in clean


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        bounded("text", 0)


@given(st.text(), st.integers(min_value=1, max_value=300))
def test_the_result_is_never_longer_than_its_limit(text: str, limit: int) -> None:
    assert len(sanitize(text, limit=limit)) <= limit


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_the_result_can_always_be_stored_as_utf8_text(text: str) -> None:
    clean = sanitize(text)
    assert "\x00" not in clean
    assert clean.encode("utf-8").decode("utf-8") == clean
    assert printable(clean) == clean


_PIECES = st.sampled_from(
    [
        "://",
        "a",
        ":",
        "@",
        "/",
        "=",
        '"',
        "'",
        "\\",
        " ",
        "\n",
        "password",
        "token",
        HIDDEN,
        "?sig=",
    ]
)


@settings(max_examples=300)
@given(st.lists(_PIECES, max_size=30).map("".join))
def test_cleaning_twice_keeps_what_was_hidden_hidden(text: str) -> None:
    once = sanitize(text.replace("a", WORD), known=[WORD])
    assert WORD not in once
    assert WORD not in sanitize(once)


@settings(max_examples=300)
@given(
    before=st.lists(_PIECES, max_size=8).map("".join),
    password=st.text(alphabet=st.sampled_from("abc12@/:?#%&='+,;!*$"), min_size=1, max_size=12),
)
def test_a_url_password_of_any_shape_is_taken_out(before: str, password: str) -> None:
    marked = f"{password}S3NTINEL"
    clean = sanitize(f"{before} postgresql://app:{marked}@db.example/files")
    assert "S3NTINEL" not in clean


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_million_hostile_characters_cost_seconds_at_most(piece: str) -> None:
    hostile = piece * (1_000_000 // len(piece))
    began = time.process_time()
    clean = sanitize(hostile)
    assert time.process_time() - began < 10
    assert len(clean) <= 2000


@pytest.mark.parametrize("place", [0, LONGEST_READ // 2 - 10, LONGEST_READ // 2, LONGEST_READ])
def test_a_secret_at_the_cut_of_a_very_long_text_does_not_survive_in_half(place: int) -> None:
    secret = f"password={WORD}"
    text = ("words " * (2 * LONGEST_READ // 6))[:place] + f" {secret} " + "words " * 400_000
    clean = sanitize(text, limit=3_000_000)
    assert WORD not in clean
    assert WORD[4:] not in clean
    assert len(clean) < LONGEST_READ + 100


def _chained(first: Exception, second: Exception, *, hide: bool = False) -> Exception:
    second.__context__ = first
    second.__suppress_context__ = hide
    return second


def test_an_exception_is_described_with_what_caused_it() -> None:
    cause = ConnectionError(f"no answer from redis://:{WORD}@cache.example")
    assert sanitize_exception(_chained(cause, RuntimeError("the run stopped"))) == (
        "RuntimeError: the run stopped, caused by "
        f"ConnectionError: no answer from redis://:{HIDDEN}@cache.example"
    )


def test_an_exception_without_message_and_one_in_a_circle_are_described() -> None:
    first, second = ValueError(), KeyError("x")
    first.__cause__, second.__cause__ = second, first
    assert sanitize_exception(first) == "ValueError, caused by KeyError: 'x'"


def test_a_context_that_was_suppressed_is_left_out() -> None:
    error = _chained(ConnectionError("first"), RuntimeError("second"), hide=True)
    assert sanitize_exception(error) == "RuntimeError: second"


def test_an_exception_whose_message_cannot_be_read_is_still_described() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise ValueError("no")

    assert sanitize_exception(Broken()) == "Broken: (its message cannot be read: ValueError)"
