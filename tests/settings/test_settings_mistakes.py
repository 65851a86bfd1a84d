from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.settings import Loaded, SettingsError

if TYPE_CHECKING:
    from tests.settings.conftest import Files

JOB = '{schedule: "*/15 * * * *"}'
OWNS = 'owns: ["files/"]'
BUCKET = "bucket: acme-uploads"

# What is replaced in the right file, by what, where it is reported, what is wrong, what is right.
MISTAKES = [
    # The top.
    ("acme-production", "Acme", "installation", "'Acme' cannot tag a run", "lowercase letters"),
    ("acme-production", "a" * 64, "installation", "a text of 64 characters", "at most 63"),
    ("acme-production", "5", "installation", "found 5", "write a text"),
    ("acme-production", "", "installation", "found nothing", "installation: acme-production"),
    ("jobs:", "jbos: 1\njobs:", "jbos", "this key is unknown", "did you mean jobs?"),
    ("jobs:", "zzz: 1\njobs:", "zzz", "this key is unknown", "known are installation, allow_live"),
    ("jobs:", 'allow_live: "no"\njobs:', "allow_live", "found 'no', a text", "true or false"),
    ("jobs:", "allow_live: 0\njobs:", "allow_live", "found 0", "true or false"),
    ("jobs:", "backfill_from: 2025\njobs:", "backfill_from", "found 2025", "year-month-day"),
    ("jobs:", "backfill_from: 2025-02-30\njobs:", "backfill_from", "not a day", "2025-01-01"),
    ("jobs:", "backfill_from: 9999-01-01\njobs:", "backfill_from", "is after today", "has begun"),
    ("jobs:", "backfill_from: 0001-01-01\njobs:", "backfill_from", "is before", "first day"),
    # The database.
    ("{url: {env: DATABASE_URL}}", "{}", "database.url", "it is missing", "{env: FILEJOBS_"),
    ("{url: {env: DATABASE_URL}}", "[]", "database", "found a list", "keys url, schema"),
    (
        "DATABASE_URL",
        "NOT_SET",
        "database.url",
        "the environment variable NOT_SET is not set",
        "set NOT_SET for every process",
    ),
    (
        "{env: DATABASE_URL}",
        "secret",
        "database.url",
        "secrets do not stand in this file",
        "write {env: NAME} and set the variable",
    ),
    (
        "DATABASE_URL}",
        "DATABASE_URL}, schema: My-Schema",
        "database.schema",
        "'My-Schema' is not a plain identifier",
        "lowercase letters",
    ),
    (
        "DATABASE_URL}",
        "DATABASE_URL}, schema_name: app",
        "database.schema_name",
        "this key is unknown",
        "did you mean schema?",
    ),
    (
        "DATABASE_URL}",
        "DATABASE_URL}, lock_timeout: 0s",
        "database.lock_timeout",
        "lock_timeout is under the floor of 1s: 0s",
        "write 1s or more",
    ),
    (
        "DATABASE_URL}",
        "DATABASE_URL}, statement_timeout: 7200",
        "database.statement_timeout",
        "7200 has no unit",
        "write 7200s or 2h",
    ),
    (
        "DATABASE_URL}",
        "DATABASE_URL}, sslmode: on",
        "database.sslmode",
        "found true",
        "'verify-full'",
    ),
    # Buckets.
    (OWNS, 'owns: ["files"]', "buckets.uploads.owns[0]", "does not end in /", "write 'files/'"),
    (OWNS, 'owns: ["/files/"]', "buckets.uploads.owns[0]", "begins with /", "write 'files/'"),
    (OWNS, 'owns: ["/"]', "buckets.uploads.owns[0]", "begins with /", "a prefix such as"),
    (OWNS, 'owns: [""]', "buckets.uploads.owns[0]", "the whole bucket", "owns_whole_bucket: true"),
    (OWNS, "owns: []", "buckets.uploads.owns", "it names no prefix", "at least one"),
    (OWNS, "owns: files/", "buckets.uploads.owns", "found 'files/', a text", "owns: [files/]"),
    (OWNS, "owns: [1]", "buckets.uploads.owns[0]", "found 1", "write a text"),
    (OWNS, "region: x", "buckets.uploads.owns", "it is missing", "owns_whole_bucket: true"),
    (
        OWNS,
        "owns_whole_bucket: false",
        "buckets.uploads.owns",
        "it is missing",
        "owns_whole_bucket: true",
    ),
    (
        OWNS,
        OWNS + "\n    owns_whole_bucket: true",
        "buckets.uploads.owns",
        "it stands beside owns_whole_bucket: true",
        "keep one",
    ),
    (
        OWNS,
        "owns: []\n    owns_whole_bucket: true",
        "buckets.uploads.owns",
        "it stands beside owns_whole_bucket: true",
        "keep one",
    ),
    (
        OWNS,
        'owns: ["a/", "b/", "a/c/"]',
        "buckets.uploads.owns[2]",
        "the prefix 'a/c/' overlaps 'a/' of owns[0]",
        "keep 'a/', which owns both",
    ),
    (OWNS, 'owns: ["a/", "a/"]', "buckets.uploads.owns[1]", "overlaps 'a/'", "keep 'a/'"),
    (
        OWNS,
        OWNS + '\n    protect: ["/files/brand/"]',
        "buckets.uploads.protect[0]",
        "'/files/brand/' begins with /, so it protects nothing",
        "write 'files/brand/'",
    ),
    (OWNS, OWNS + "\n    protect: ['']", "buckets.uploads.protect[0]", "it is empty", "write"),
    *(
        (OWNS, f"{OWNS}\n    protect: {entries}", f"buckets.uploads.protect[{at}]", found, right)
        for entries, at, found, right in [
            ("['files/brand/*']", 0, "a * stands for itself", "write 'files/brand/'"),
            ("['files/brand*']", 0, "a * stands for itself", "write 'files/'"),
            ("['files/**/logo.png']", 0, "a * stands for itself", "write 'files/'"),
            ("['*.png']", 0, "a * stands for itself", "such as 'files/brand/'"),
            ("[' files/brand/']", 0, "begins or ends with a blank", "write 'files/brand/'"),
            ("['files/brand/ ']", 0, "begins or ends with a blank", "write 'files/brand/'"),
            ("['s3://b/files/brand/']", 0, "is an address", "write 'files/brand/'"),
            ("['https://cdn.example/files/']", 0, "is an address", "write 'files/'"),
            ("['s3://acme-uploads']", 0, "is an address", "such as 'files/'"),
            ("['files/../brand/']", 0, "has a . or ..", "as the bucket lists it"),
            ("['brand/']", 0, "lies outside of owns", "did you mean 'files/brand/'?"),
            ("['brand']", 0, "lies outside of owns", "did you mean 'files/brand'?"),
            ("['Files/brand/']", 0, "lies outside of owns", "write 'files/brand/'"),
            ("['acme-uploads/files/brand/']", 0, "lies outside", "write 'files/brand/'"),
            ("['files/a/', 'files/a/']", 1, "stands at protect[0] too", "keep one"),
            ("['files/a/', 'files/a']", 1, "stands at protect[0] too", "keep one"),
        ]
    ),
    *(
        (OWNS, f"owns: {entries}", "buckets.uploads.owns[0]", found, right)
        for entries, found, right in [
            ("['files/*']", "a * stands for itself", "write 'files/'"),
            ("['files/*/']", "a * stands for itself", "write 'files/'"),
            ("[' files/']", "begins or ends with a blank", "write 'files/'"),
            ("['files/ ']", "begins or ends with a blank", "write 'files/'"),
            ("['s3://acme-uploads/files/']", "is an address", "write 'files/'"),
            ("['./files/']", "has a . or ..", "as the bucket lists it"),
        ]
    ),
    # What no key in what is owned can ever meet.
    *(
        (OWNS, f"{OWNS}\n    {more}", f"buckets.uploads.{where}", found, right)
        for more, where, found, right in [
            (
                "rewrites: [{name: a, match: 'thumbs/(?P<id>.+)', owner: 'files/{id}'}]",
                "rewrites[0].match",
                "only keys that begin with 'thumbs/', outside of owns",
                "from the bucket's root on",
            ),
            (
                r"shape: ['files/.+', '^[0-9a-f]+$', '/files/\d+']",
                "shape[2]",
                "only keys that begin with '/files/', outside of owns",
                "from the bucket's root on",
            ),
            (
                "sources: [{name: a, sql: select 1, transforms: [{prepend: media/}]}]",
                "sources[0].transforms",
                "every key would begin with 'media/'",
                "as the bucket lists them",
            ),
            (
                (
                    "sources: [{name: a, sql: select 1, "
                    "transforms: [{prepend: files/}, {strip_base: ['s3://acme/']}]}]"
                ),
                "sources[0].transforms[1].strip_base",
                "every value begins with 'files/' by then",
                "put this step before prepend",
            ),
            (
                (
                    "sources: [{name: a, sql: select 1, recheck_sql: 'select $1', "
                    "transforms: [{drop_query: true}, {strip_suffix: '?v=1'}]}]"
                ),
                "sources[0].transforms[1]",
                "drop_query before it",
                "leave the step out",
            ),
            (
                "sources: [{name: a, sql: \"select 'avatar_key' from account\"}]",
                "sources[0].sql",
                "what stands in single quotes is no column",
                "without quotes, or in double ones",
            ),
        ]
    ),
    ("min_age: 48h", "region: x", "buckets.uploads.min_age", "it is missing", "min_age: 48h"),
    (
        "min_age: 48h",
        "min_age: 12h",
        "buckets.uploads.min_age",
        "min_age is under the floor of 24h: 12h",
        "write 24h or more",
    ),
    ("min_age: 48h", "min_age: 48", "buckets.uploads.min_age", "48 has no unit", "48d"),
    (
        "min_age: 48h",
        "min_age: 999999d",
        "buckets.uploads.min_age",
        "min_age is over the ceiling of 3650d",
        "write 3650d or less",
    ),
    (BUCKET, "bucket: s3://acme", "buckets.uploads.bucket", "not the name of a bucket", "without"),
    (BUCKET, "region: x", "buckets.uploads.bucket", "it is missing", "bucket: acme-uploads"),
    (
        OWNS,
        OWNS + "\n    endpoint_url: s3.example.com",
        "buckets.uploads.endpoint_url",
        "not an http or https URL",
        "https://",
    ),
    (
        OWNS,
        OWNS + "\n    endpoint_url: https://user:hunter2@s3.example.com",
        "buckets.uploads.endpoint_url",
        "it holds a user or a password",
        "write the address alone",
    ),
    (
        OWNS,
        OWNS + "\n    access_key_id: {env: DATABASE_URL}",
        "buckets.uploads.secret_access_key",
        "it is missing beside access_key_id",
        "write both, or neither",
    ),
    (
        OWNS,
        OWNS + "\n    secret_access_key: {env: DATABASE_URL}",
        "buckets.uploads.access_key_id",
        "it is missing beside secret_access_key",
        "write both, or neither",
    ),
    (
        OWNS,
        OWNS + "\n    session_token: {env: DATABASE_URL}",
        "buckets.uploads.session_token",
        "it stands alone",
        "access_key_id and secret_access_key",
    ),
    (
        OWNS,
        OWNS + "\n    addressing: host",
        "buckets.uploads.addressing",
        "found 'host'",
        "write 'auto', 'path' or 'virtual'",
    ),
    (
        OWNS,
        OWNS + "\n    max_attempts: 21",
        "buckets.uploads.max_attempts",
        "found 21",
        "a whole number from 1 to 20",
    ),
    (
        OWNS,
        OWNS + "\n    sources: [{name: a, sql: 'select 1; select 2'}]",
        "buckets.uploads.sources[0].sql",
        "the query has a ; in it",
        "without any ;",
    ),
    (
        OWNS,
        OWNS + "\n    sources: [{name: a, sql: ' '}]",
        "buckets.uploads.sources[0].sql",
        "the query is empty",
        "write one SELECT",
    ),
    (
        OWNS,
        OWNS + "\n    sources: [{name: a, sql: select 1, min_rows: -1}]",
        "buckets.uploads.sources[0].min_rows",
        "found -1",
        "at least 0",
    ),
    (
        OWNS,
        OWNS + "\n    sources: [{name: a, sql: select 1}, {name: a, sql: select 2}]",
        "buckets.uploads.sources[1].name",
        "sources[0] has the same name 'a'",
        "a name of its own",
    ),
    (
        OWNS,
        OWNS + "\n    sources: [{name: a, query: x, sql: select 1}]",
        "buckets.uploads.sources[0].query",
        "this key is unknown",
        "known are name, sql, min_rows",
    ),
    # Jobs.
    (
        "upload_reservations: ",
        "upload_reservation: ",
        "jobs.upload_reservation",
        "no job has this name",
        "did you mean upload_reservations?",
    ),
    (
        JOB,
        "{}",
        "jobs.upload_reservations",
        "nothing says when it runs",
        "say when: give `schedule` or `by_hand: true`",
    ),
    (
        JOB,
        "{by_hand: false}",
        "jobs.upload_reservations",
        "nothing says when it runs",
        "say when: give `schedule` or `by_hand: true`",
    ),
    (
        JOB,
        "{schedule: '@daily', by_hand: true}",
        "jobs.upload_reservations",
        "it has both `schedule` and `by_hand: true`",
        "not both",
    ),
    (JOB, "", "jobs.upload_reservations", "found nothing", "keys schedule, by_hand"),
    (
        JOB,
        "{schedule: '0 25 * * *'}",
        "jobs.upload_reservations.schedule",
        "its hour '25' is wrong",
        "five fields",
    ),
    (JOB, "{schedule: 5}", "jobs.upload_reservations.schedule", "found a whole number", "five"),
    (
        JOB,
        "{by_hand: true, mode: wet}",
        "jobs.upload_reservations.mode",
        "found 'wet'",
        "write 'dry' or 'live'",
    ),
    (
        JOB,
        "{by_hand: true, limit: 1000001}",
        "jobs.upload_reservations.limit",
        "found 1000001",
        "a whole number from 1 to 1000000",
    ),
    (JOB, "{by_hand: true, limit: '5'}", "jobs.upload_reservations.limit", "found '5'", "whole"),
    (JOB, "{by_hand: true, limit: true}", "jobs.upload_reservations.limit", "found true", "whole"),
    (JOB, "{by_hand: true, limit: 1.5}", "jobs.upload_reservations.limit", "found 1.5", "whole"),
    (
        JOB,
        "{by_hand: true, batch_size: 0}",
        "jobs.upload_reservations.batch_size",
        "found 0",
        "from 1 to 1000",
    ),
    (
        JOB,
        "{by_hand: true, grace: 31d}",
        "jobs.upload_reservations.grace",
        "grace is over the ceiling of 30d: 31d",
        "write 30d or less",
    ),
    (
        JOB,
        "{by_hand: true, grace: -1s}",
        "jobs.upload_reservations.grace",
        "grace is under the floor of 0s: -1s",
        "write 0s or more",
    ),
    (
        JOB,
        "{by_hand: true, max_runtime: 25h}",
        "jobs.upload_reservations.max_runtime",
        "max_runtime is over the ceiling of 24h",
        "write 24h or less",
    ),
    (
        JOB,
        "{by_hand: true, stale_after: 0s}",
        "jobs.upload_reservations.stale_after",
        "stale_after is under the floor of 1s",
        "write 1s or more",
    ),
    (
        JOB,
        "{schedule: '0 3 * * *', time_zone: Europe/Berln}",
        "jobs.upload_reservations.time_zone",
        "no time zone is called 'Europe/Berln'",
        "IANA",
    ),
    (
        JOB,
        "{by_hand: true, time_zone: Europe/Berlin}",
        "jobs.upload_reservations.time_zone",
        "there is no schedule that goes by it",
        "leave it out",
    ),
    (
        JOB,
        "{schedule: '0 3 * * *', alert_after: 0}",
        "jobs.upload_reservations.alert_after",
        "0",
        "1",
    ),
    (
        JOB,
        "{schedule: '0 3 * * *', stale_after: 2h}",
        "jobs.upload_reservations.stale_after",
        "it is 2h, and the schedule runs every 1d at most",
        "write more than 1d",
    ),
    (
        JOB,
        "{by_hand: true, bucket: upload}",
        "jobs.upload_reservations.bucket",
        "no entry of buckets is called 'upload'",
        "did you mean uploads?",
    ),
    (
        JOB,
        "{by_hand: true, backlog_over: 0}",
        "jobs.upload_reservations.backlog_over",
        "found 0",
        "at least 1",
    ),
    (
        JOB,
        "{by_hand: true, batchsize: 5}",
        "jobs.upload_reservations.batchsize",
        "this key is unknown",
        "did you mean batch_size?",
    ),
    (
        "jobs:",
        "  other: {bucket: other, owns: [files/], min_age: 48h}\njobs:",
        "jobs.upload_reservations.bucket",
        "it is missing, and there are 2 buckets",
        "name one of uploads, other",
    ),
]


@pytest.mark.parametrize(("old", "new", "path", "found", "expected"), MISTAKES)
def test_a_mistake_is_named_with_its_path_and_what_would_be_right(
    files: Files, old: str, new: str, path: str, found: str, expected: str
) -> None:
    problem = files.only_problem(old, new)
    assert problem.path == path
    assert found in problem.found
    assert expected in problem.expected


IDLE = {
    "a lock timeout behind the statement's": (
        "database: {url: {env: DATABASE_URL}}",
        "database: {url: {env: DATABASE_URL}, statement_timeout: 5s, lock_timeout: 5s}",
        "database.lock_timeout",
    ),
    "an authority that nothing is compared with": (
        "database: {url: {env: DATABASE_URL}}",
        "database: {url: {env: DATABASE_URL}, sslmode: prefer, sslrootcert: /ca}",
        "database.sslrootcert",
    ),
    "a certificate without TLS": (
        "database: {url: {env: DATABASE_URL}}",
        "database: {url: {env: DATABASE_URL}, sslmode: disable, sslkey: /key}",
        "database.sslkey",
    ),
    **{
        f"{line.partition(':')[0]} where nothing is owned": (
            "jobs:",
            f"  pins: {{bucket: b, owns_nothing: true, {line}}}\njobs:",
            f"buckets.pins.{line.partition(':')[0]}",
        )
        for line in (
            "protect: [a/]",
            "sources: [{name: a, sql: select 1}]",
            "shape: [a]",
            "rewrites: [{name: a, match: '(?P<id>a)', owner: 'b/{id}'}]",
            "purge_versions: true",
        )
    },
}


@pytest.mark.parametrize("idle", IDLE)
def test_a_line_that_can_never_have_an_effect_is_a_mistake(files: Files, idle: str) -> None:
    old, new, path = IDLE[idle]
    several = files.changed(old, new).problems
    assert [problem.path for problem in several if problem.path.startswith(path)] == [path]


@pytest.mark.parametrize(
    "right",
    [
        "{url: {env: DATABASE_URL}, statement_timeout: 5s}",
        "{url: {env: DATABASE_URL}, lock_timeout: 40s}",
        "{url: {env: DATABASE_URL}, sslmode: require, sslrootcert: /ca}",
        "{url: {env: DATABASE_URL}, sslrootcert: /ca}",
    ],
)
def test_what_has_an_effect_somewhere_is_no_mistake(files: Files, right: str) -> None:
    assert files.changed("{url: {env: DATABASE_URL}}", right).settings is not None


@pytest.mark.parametrize(
    "right",
    [
        "protect: ['files/a*b/', 'files/2 * 2.png', 'files/b', 'files/be/', 'files/a/b/', files]",
        r"shape: ['(files|drafts)/.+', 'f.*', 'files/\d+', '(?i)FILES/x', 'files?/x+', '.+\.png']",
        "rewrites: [{name: a, match: '(?P<id>.+)_thumb', owner: '{id}'}]",
        (
            "sources: [{name: a, sql: select 1, "
            "transforms: [{strip_base: ['s3://acme/']}, {prepend: files/}, {strip_suffix: x}]}]"
        ),
        (
            "sources: [{name: a, sql: select 1, transforms: [{prepend: 's3://acme/files/'}, "
            "{strip_base: ['s3://acme/', 'http://x/']}]}]"
        ),
        "sources: [{name: logo, sql: \"select 'files/logo.png'\"}]",
    ],
)
def test_what_may_be_meant_is_no_mistake(files: Files, right: str) -> None:
    assert files.changed(OWNS, f"{OWNS}\n    {right}").problems == ()


@pytest.mark.parametrize(
    "right",
    [
        "{schedule: '0 3 * * *', stale_after: 1d}",
        "{schedule: '*/15 8-18 * * MON-FRI', stale_after: 2h}",
        "{schedule: '@yearly', stale_after: 380d}",
    ],
)
def test_a_threshold_that_a_schedule_can_keep_is_no_mistake(files: Files, right: str) -> None:
    assert files.changed(JOB, right).problems == ()


def test_a_bucket_is_needed_only_by_jobs_that_delete_bytes(files: Files) -> None:
    head = "installation: a\ndatabase: {url: {env: DATABASE_URL}}\n"
    loaded = files.read(head + "jobs: {upload_reservations: {by_hand: true}}")
    (problem,) = loaded.problems
    assert problem.path == "buckets"
    assert problem.found == "there is no bucket, and upload_reservations deletes bytes"
    assert problem.expected == "write a bucket with bucket, owns and min_age"
    assert files.read(head + "jobs: {audit_seal: {by_hand: true}}").problems == ()
    assert files.read(head).problems == ()


def with_another_bucket(files: Files, other: str) -> Loaded:
    text = files.good.replace("jobs:", f"  other: {other}\njobs:")
    return files.read(text.replace('{schedule: "', '{bucket: uploads, schedule: "'))


@pytest.mark.parametrize(
    ("owned", "path", "prefix"),
    [
        ("owns: [files/x/]", "buckets.other.owns[0]", "the prefix 'files/x/'"),
        ("owns: [a/, files/]", "buckets.other.owns[1]", "the prefix 'files/'"),
        ("owns_whole_bucket: true", "buckets.other.owns_whole_bucket", "the whole bucket"),
    ],
)
def test_two_entries_do_not_own_the_same_keys(
    files: Files, owned: str, path: str, prefix: str
) -> None:
    loaded = with_another_bucket(files, f"{{bucket: acme-uploads, {owned}, min_age: 48h}}")
    (problem,) = loaded.problems
    assert problem.path == path
    assert problem.found == (
        f"{prefix} overlaps the prefix 'files/' of buckets.uploads.owns[0]: "
        "both entries are the bucket 'acme-uploads' of the same server"
    )
    assert problem.expected == "give every prefix to one entry only"


@pytest.mark.parametrize(
    "other",
    [
        "{bucket: another, owns: [files/], min_age: 48h}",
        "{bucket: acme-uploads, owns: [file/], min_age: 48h}",
        "{bucket: acme-uploads, endpoint_url: 'https://x', owns: [files/], min_age: 48h}",
    ],
)
def test_prefixes_that_are_not_the_same_place_do_not_overlap(files: Files, other: str) -> None:
    assert with_another_bucket(files, other).problems == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://s3.example.com", "https://S3.example.com:443/"),
        ("http://s3.example.com:9000", "https://s3.example.com:9000"),
    ],
)
def test_one_server_written_in_two_ways_is_one_server(files: Files, one: str, other: str) -> None:
    text = f"""\
installation: a
database: {{url: {{env: DATABASE_URL}}}}
buckets:
  one: {{bucket: b, endpoint_url: "{one}", owns: [files/], min_age: 48h}}
  two: {{bucket: b, endpoint_url: "{other}", owns: [files/x/], min_age: 48h}}
"""
    assert [problem.path for problem in files.read(text).problems] == ["buckets.two.owns[0]"]


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file(files: Files) -> None:
    text = """\
installation: Acme
database:
  url: {env: NOT_SET}
  schemas: public
buckets:
  uploads:
    bucket: acme-uploads
    access_key_id: literal
    owns: ["files", "a/", "a/b/"]
    min_age: 1h
  again: {bucket: acme-uploads, owns: ["a/b/c/"], min_age: 48h}
jobs:
  upload_reservation: {by_hand: true}
  upload_reservations:
    mode: wet
    limit: 0
    bucket: nowhere
    mode: live
  audit_seal: {schedule: "* * * * * *"}
"""
    loaded = files.read(text)
    assert [(problem.path, problem.line) for problem in loaded.problems] == [
        ("installation", 1),
        ("database.url", 3),
        ("database.schemas", 4),
        ("buckets.uploads.secret_access_key", 6),
        ("buckets.uploads.access_key_id", 8),
        ("buckets.uploads.owns[0]", 9),
        ("buckets.uploads.owns[2]", 9),
        ("buckets.uploads.min_age", 10),
        ("buckets.again.owns[0]", 11),
        ("buckets.again.owns[0]", 11),
        ("jobs.upload_reservation", 13),
        ("jobs.upload_reservations", 14),
        ("jobs.upload_reservations.mode", 15),
        ("jobs.upload_reservations.limit", 16),
        ("jobs.upload_reservations.bucket", 17),
        ("jobs.upload_reservations.mode", 18),
        ("jobs.audit_seal.schedule", 19),
    ]
    with pytest.raises(SettingsError) as caught:
        loaded.require()
    lines = str(caught.value).splitlines()
    assert len(lines) == len(loaded.problems)
    assert lines[0].startswith("installation (line 1): 'Acme' cannot tag a run; write lowercase")
