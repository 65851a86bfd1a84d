"""Takes secrets and unprintable characters out of text before anybody can store or show it.

Two independent nets: the values of the installation's own secrets, wherever they stand, and the
shapes of secrets that nobody told us about. Where a text is ambiguous more is taken away rather
than less. Every expression consumes what it looks at, so that hostile input costs linear time.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

HIDDEN = "***"
"""What stands where a secret stood."""

DEFAULT_LIMIT = 2000
LOG_LIMIT = 20_000
LONGEST_READ = 1_000_000
"""Characters of a text that are looked at; of a longer one the middle is left out first."""

SHORTEST_KNOWN_SECRET = 4
MOST_CAUSES = 8


class Teaching(Exception):
    """An error whose message says what was tried, what was found and what to do, without secrets.

    Where commands end, it is told as it is: any other is a fault of the program.
    """


def sanitize(text: str, *, limit: int = DEFAULT_LIMIT, known: Iterable[str] = ()) -> str:
    """Return the text without secrets, printable, and at most `limit` characters long.

    Args:
        text: Anything: an error message, a traceback, the answer of a server.
        limit: The most characters of the result; the head and the tail are kept.
        known: Values of secrets that must not appear in any spelling. Values of three characters
            and less are ignored, because they would tear ordinary words apart.
    """
    text = _without_known(text, known)
    text = _within_reading(text)
    text = _without_url_passwords(text)
    for rule in _RULES:
        text = rule.apply(text)
    return bounded(printable(text), limit)


def sanitize_exception(
    error: BaseException, *, limit: int = DEFAULT_LIMIT, known: Iterable[str] = ()
) -> str:
    """Describe an exception and what caused it, without secrets.

    Returns:
        `Class: message`, joined by `, caused by ` with at most seven causes; bounded as `sanitize`.
    """
    described = ", caused by ".join(_described(cause) for cause in _chain(error))
    return sanitize(described, limit=limit, known=known)


def bounded(text: str, limit: int) -> str:
    """Cut out the middle so that the result has at most `limit` characters.

    Raises:
        ValueError: The limit is less than one.
    """
    if limit < 1:
        raise ValueError(f"A limit of {limit} characters leaves nothing; give at least 1.")
    if len(text) <= limit:
        return text
    notice = f" … [{len(text) - limit} or more characters left out] … "
    room = limit - len(notice)
    if room < len(notice):
        return text[: limit - 1] + "…"
    tail = room // 3
    return text[: room - tail] + notice + text[len(text) - tail :]


def printable(text: str) -> str:
    r"""Write control characters as escapes (`\x00`), because a text column cannot hold them.

    New lines and tabs stay. Lone surrogates, which UTF-8 cannot encode, and characters that turn
    the direction of writing, which can make a log say something else, become escapes as well.
    """
    return _UNPRINTABLE.sub(lambda match: _escape(match[0]), text)


def display_key(key: str, limit: int = 200) -> str:
    r"""Return the key on one line, printable, and at most `limit` characters long.

    Backslashes are doubled, so that a key with a real `\n` and one with a backslash and an `n`
    look different. The result is for people: it may be cut, so never use it as a key.
    """
    escaped = "".join(_shown(character) for character in key)
    return escaped if len(escaped) <= limit else escaped[: max(limit - 1, 0)] + "…"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen and len(seen) < MOST_CAUSES:
        seen.add(id(cause))
        yield cause
        hidden = None if cause.__suppress_context__ else cause.__context__
        cause = cause.__cause__ or hidden


def _described(error: BaseException) -> str:
    try:
        message = str(error).strip()
    except Exception as unreadable:  # noqa: BLE001 (the record must not fail itself)
        message = f"(its message cannot be read: {type(unreadable).__name__})"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


# --- the installation's own secrets --------------------------------------------------------------


def _without_known(text: str, known: Iterable[str]) -> str:
    spellings = {spelling for value in known for spelling in _spellings_of(value)}
    # The longest first: a short secret inside a long one would leave the rest of the long one.
    for spelling in sorted(spellings, key=lambda word: (-len(word), word)):
        text = text.replace(spelling, HIDDEN)
    return text


# An installation has few secrets and every text is searched for them: half of what a text took.
@functools.lru_cache(maxsize=64)
def _spellings_of(value: str) -> tuple[str, ...]:
    return tuple(_spellings(value))


def _spellings(value: str) -> Iterator[str]:
    if len(value) < SHORTEST_KNOWN_SECRET:
        return
    yield value
    # Surrogates come from undecodable bytes in the environment; such a value has no URL form.
    encodable = value.encode("utf-8", "surrogateescape")
    for encoded in (quote(encodable, safe=""), quote(encodable), quote_plus(encodable)):
        yield encoded
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), encoded)
    yield repr(value)[1:-1]
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]


# --- very long texts -----------------------------------------------------------------------------


def _within_reading(text: str) -> str:
    if len(text) <= LONGEST_READ:
        return text
    half = LONGEST_READ // 2
    head, tail = text[:half], text[-half:]
    # A word that the cut goes through may be half a secret that no expression knows any more.
    head = head[: max(head.rfind(" "), head.rfind("\n"), 0)]
    first_gap = min((at for at in (tail.find(" "), tail.find("\n")) if at >= 0), default=half)
    notice = f" … [{len(text) - len(head) - (half - first_gap)} characters left out] … "
    return head + notice + tail[first_gap:]


# --- passwords in connection URLs ----------------------------------------------------------------

_URL_END = re.compile(r"[\s\"<>`]")
_SPACE = re.compile(r"\s")
_MOST_BEYOND_URL_END = 256
_TOKEN_AS_USER = ("http", "https", "git")
_ENCODED_URL = re.compile(r"(%3a%2f%2f)([^\s&\"'<>]*)", re.IGNORECASE)


def _without_url_passwords(text: str) -> str:
    """Hide what stands between `://user:` and the last `@`: the password may hold `@` and `/`."""
    parts: list[str] = []
    done = 0
    at = text.find("://")
    while at >= 0:
        start = at + len("://")
        last, end = _end_of_credentials(text, start)
        if last is None:
            # What follows in the same word has no `@` either; to look again would cost its square.
            at = text.find("://", end)
            continue
        colon = text.find(":", start, last)
        scheme = text[max(0, at - 5) : at].lower()
        if colon >= 0:
            parts += [text[done : colon + 1], HIDDEN]
            done = last
        elif scheme.endswith(_TOKEN_AS_USER):
            parts += [text[done:start], HIDDEN]
            done = last
        at = text.find("://", last)
    parts.append(text[done:])
    return _ENCODED_URL.sub(_hide_encoded_password, "".join(parts))


def _end_of_credentials(text: str, start: int) -> tuple[int | None, int]:
    """Where the last `@` of the URL that goes on at `start` stands, if any, and where it ends."""
    match = _URL_END.search(text, start)
    end = match.start() if match else len(text)
    found = text.rfind("@", start, end)
    if found >= 0:
        return found, end
    # A password may hold a quote, too: look a little further, up to white space.
    further = text[end : end + _MOST_BEYOND_URL_END]
    gap = _SPACE.search(further)
    found = further[: gap.start() if gap else None].find("@")
    if found < 0 or "://" in further[:found] or ":" not in text[start:end]:
        return None, end
    return end + found, end


def _hide_encoded_password(match: re.Match[str]) -> str:
    rest = match[2]
    lower = rest.lower()
    colon, last = lower.find("%3a"), lower.rfind("%40")
    if not 0 <= colon < last:
        return match[0]
    return f"{match[1]}{rest[: colon + 3]}{HIDDEN}{rest[last:]}"


# --- shapes of secrets ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rule:
    """An expression, and what a match becomes."""

    pattern: re.Pattern[str]
    replacement: str | Callable[[re.Match[str]], str] = HIDDEN

    def apply(self, text: str) -> str:
        return self.pattern.sub(self.replacement, text)


_REVEALING_NAME = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|pgpassword|secret|token|credentials?"
    r"|(?:api|access|private|secret|account|signing|encryption|shared|storage|master|webhook)"
    r"[ _-]?key(?:[ _-]?id)?|authkey|sas)"
)
_QUOTED_VALUE = (
    r"[bBrRuU]{0,2}(?:"
    r"\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*\"?"
    r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'?"
    r"|\\+\"[^\"\n]*\"?"
    r"|\\+'[^'\n]*'?)"
)
_PAIR = re.compile(
    rf"(?P<name>{_REVEALING_NAME}s?[0-9]{{0,3}})"
    r"(?P<separator>\\{0,3}[\"']?[ \t]{0,4}(?::=|=>|==|[=:])[ \t]{0,4})"
    rf"(?:(?P<quoted>{_QUOTED_VALUE})|(?P<bare>[^\s\"'][^\s]*))",
    re.IGNORECASE,
)
_TRAILING_PUNCTUATION = re.compile(r"[)\]},;.'\"]{0,8}\Z")
_SHORTEST_VALUE_IN_PROSE = 6


def _hide_pair(match: re.Match[str]) -> str:
    head = match["name"] + match["separator"]
    quoted = match["quoted"]
    if quoted is not None:
        opening = re.match(r"[bBrRuU]{0,2}\\*[\"']", quoted)
        start = opening[0] if opening else ""
        closing = start.lstrip("bBrRuU")
        closed = len(quoted) >= len(start) + len(closing) and quoted.endswith(closing)
        return f"{head}{start}{HIDDEN}{closing if closed else ''}"
    bare = match["bare"]
    # `unexpected token: }` and `Token: see below` are sentences, not secrets.
    if ":" in match["separator"] and len(bare) < _SHORTEST_VALUE_IN_PROSE:
        soft = not match["name"].lower().startswith(("pass", "pwd", "pgpass"))
        if soft:
            return match[0]
    trailing = _TRAILING_PUNCTUATION.search(bare[-8:])
    return f"{head}{HIDDEN}{trailing[0] if trailing else ''}"


_LONGER_THAN_A_WORD = 20


def _hide_bearer(match: re.Match[str]) -> str:
    value = match["value"]
    # `Basic authentication` is a sentence; a credential mixes cases or digits, or is long.
    if value.isalpha() and value[1:].islower() and len(value) < _LONGER_THAN_A_WORD:
        return match[0]
    return f"{match['scheme']} {HIDDEN}"


_RULES: tuple[_Rule, ...] = (
    _Rule(
        # Without an end, everything up to the end of the text belongs to the key.
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"[\s\S]*?(?:-----END[A-Z0-9 ]{0,60}-----|\Z)"
        ),
        f"-----BEGIN PRIVATE KEY----- {HIDDEN}",
    ),
    _Rule(re.compile(r"\A[A-Za-z0-9+/=\s]*-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")),
    _Rule(
        re.compile(r"(AWS4-HMAC-SHA256|AWS4-ECDSA-P256-SHA256)(?:[ \t]+[^\n\"']*)"),
        rf"\1 {HIDDEN}",
    ),
    _Rule(
        re.compile(
            r"((?:proxy-)?authorization\\{0,3}[\"']?[ \t]{0,4}[:=,][ \t]{0,4}"
            r"(?:b?\\{0,3}[\"'])?)"
            r"(?!AWS4-)"
            r"(?:((?:bearer|basic|token|digest|negotiate|aws|apikey)[ \t]{1,4})[^\s\"']+"
            r"|[^\s\"']+)",
            re.IGNORECASE,
        ),
        lambda match: f"{match[1]}{match[2] or ''}{HIDDEN}",
    ),
    _Rule(
        re.compile(
            r"(?P<scheme>(?<![A-Za-z])(?:bearer|basic))[ \t]{1,4}"
            r"(?P<value>[A-Za-z0-9._~+/=-]{8,})",
            re.IGNORECASE,
        ),
        _hide_bearer,
    ),
    _Rule(
        re.compile(
            r"(?<![A-Za-z0-9-])"
            r"((?:set-)?cookie|x-(?:amz|goog|oss|ms)-security-token|x-vault-token)"
            r"(\\{0,3}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}[\"']?)[^\n\"'&<>]+",
            re.IGNORECASE,
        ),
        rf"\1\2{HIDDEN}",
    ),
    _Rule(
        re.compile(
            r"(?<![A-Za-z0-9])"
            r"(x-(?:amz|goog|oss|ms)-(?:signature|credential|security-token)|signature"
            r"|awsaccesskeyid|ossaccesskeyid|googleaccessid|key-pair-id)"
            r"(\\{0,3}[\"']?[ \t]{0,2}(?:=|%3d|:)[ \t]{0,2}\\{0,3}[\"']?)[^&\s\"'<>]+",
            re.IGNORECASE,
        ),
        rf"\1\2{HIDDEN}",
    ),
    _Rule(
        re.compile(r"(?<![A-Za-z0-9])(sig(?:=|%3d))[^&\s\"'<>]{16,}", re.IGNORECASE),
        rf"\1{HIDDEN}",
    ),
    _Rule(
        re.compile(
            r"(<(?:secretaccesskey|sessiontoken|awsaccesskeyid|accesskeyid|signatureprovided"
            r"|stringtosign|canonicalrequest|password|token|token-0|secret)>)[^<]*",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    _Rule(_PAIR, _hide_pair),
    _Rule(
        re.compile(
            rf"(?<![A-Za-z0-9-])(--[a-z0-9-]{{0,30}}{_REVEALING_NAME}[ \t]{{1,4}})(?![-*])\S+",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    _Rule(
        re.compile(
            r"(?<![A-Za-z0-9])(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ANVA|ABIA|ACCA)[A-Z0-9]{12,124}"
        )
    ),
    _Rule(re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{2,}(?:\.[\w-]*)*")),
    _Rule(
        re.compile(
            r"(hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/"
            r"|discord(?:app)?\.com/api/(?:v[0-9]{1,3}/)?webhooks/"
            r"|webhook\.office\.com/"
            r"|api\.telegram\.org/bot)[^\s\"'<>]+",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    _Rule(re.compile(r"(?<![A-Za-z0-9])(?:xox[a-z](?:\.xox[a-z])?|xapp)-[A-Za-z0-9%-]{8,}")),
    _Rule(re.compile(r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,})")),
    _Rule(
        re.compile(
            r"(?<![A-Za-z0-9])(?:glpat-|npm_|dop_v1_|hf_|pypi-|SG\.|sk-|[srp]k_live_|whsec_|shpat_"
            r"|AIza|ya29\.|hvs\.|dp\.pt\.|AGE-SECRET-KEY-1)[A-Za-z0-9_.-]{20,}"
        )
    ),
)

# --- control characters --------------------------------------------------------------------------

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def _escape(character: str) -> str:
    if character == "\r":
        return "\\r"
    code = f"{ord(character):04x}"
    return f"\\x{code[2:]}" if code.startswith("00") else f"\\u{code}"


def _shown(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 1 << 8 else f"\\u{code:04x}"


# How a duration is spelled, wherever somebody reads one: as the settings write it.

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def format_duration(duration: timedelta) -> str:
    """Write a duration so that the settings read the same one: `1h30m`; weeks become days.

    One with a fraction of a second, which no setting has, is written in seconds: `1.5s`.
    """
    if duration.microseconds:
        return f"{duration.total_seconds():g}s"
    rest = abs(round(duration.total_seconds()))
    text = "-" if duration < timedelta() else ""
    if rest == 0:
        return "0s"
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text


def roughly(duration: timedelta) -> str:
    """How long something took or is ago: by the two largest units; below a minute with tenths."""
    seconds = max(0.0, duration.total_seconds())
    for _, size in _UNITS[:-1]:
        if seconds >= size:
            # The largest unit, and the one below it.
            smallest = {86_400: 3_600, 3_600: 60}.get(size, 1)
            return format_duration(timedelta(seconds=seconds // smallest * smallest))
    return f"{round(seconds, 1):g}s"
