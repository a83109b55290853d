"""Keeping keys and tokens out of every text that leaves the process.

Two strengths. :func:`redact` is for texts that people read (errors, logs, names): it removes the known keys and
whatever looks like one. :func:`redact_known` is for data that must stay as it is otherwise (a model's answer, a stored
request): it removes only the known keys, letter by letter.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

#: What stands where a secret stood.
REDACTED = "<redacted>"

#: Environment variables whose values are secrets.
KEY_VARIABLES = (
    "MEMEVAL_API_KEY",
    "MEMEVAL_JUDGE_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_ADMIN_KEY",
    "AZURE_OPENAI_API_KEY",
)

# A shorter value ("none", "x") is a placeholder; cutting it out would tear ordinary words apart.
_SHORTEST_SECRET = 6

_SECRET_NAME = (
    r"(?:api[-_]?key|access[-_]?key|access[-_]?token|auth[-_]?token|token|secret|password|passwd|signature|sig|key)"
)
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # user:password@ in a URL
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@'\"<>?#]+@"), rf"\1{REDACTED}@"),
    # Authorization headers in any notation: `Authorization: Bearer x`, `'authorization': 'Basic x'`
    (
        re.compile(
            r"(?i)(\b(?:proxy-)?authorization\b['\"]?\s*[:=,]\s*(?:b(?=['\"]))?['\"]?)(?:(bearer|basic|token)\s+)?[^\s'\",;)}\]]+"
        ),
        rf"\1{REDACTED}",
    ),
    (re.compile(r"(?i)(\b(?:x-)?api-key\b['\"]?\s*[:=,]\s*(?:b(?=['\"]))?['\"]?)[^\s'\",;)}\]]+"), rf"\1{REDACTED}"),
    (re.compile(r"(?i)\b(bearer\s+)(?!<redacted>)[A-Za-z0-9._~+/=-]{6,}"), rf"\1{REDACTED}"),
    # ?api_key=… in a URL, api_key=… in a repr
    (re.compile(rf"(?i)([?&]{_SECRET_NAME}=)[^&\s#'\"<>]+"), rf"\1{REDACTED}"),
    (re.compile(r"(?i)\b(api_?key['\"]?\s*[:=]\s*['\"]?)(?!<redacted>)[^\s'\",;)}\]&]+"), rf"\1{REDACTED}"),
    # Keys that announce themselves
    (re.compile(r"\b(?:sk|rk|pk)-[A-Za-z0-9_-]{8,}"), REDACTED),
    (re.compile(r"\b(?:gsk_|hf_|xai-|AIza|ghp_|github_pat_)[A-Za-z0-9_-]{8,}"), REDACTED),
)


def is_secret_name(name: str) -> bool:
    """Whether a parameter of this name carries a secret (``api_key``, ``token``, ``sig`` …)."""
    return re.fullmatch(_SECRET_NAME, name, re.IGNORECASE) is not None


def known_secrets(extra: Iterable[str | None] = ()) -> tuple[str, ...]:
    """The values of the key variables in the environment, and ``extra``; longest first, placeholders left out."""
    values = {os.environ.get(name, "").strip() for name in KEY_VARIABLES} | {(value or "").strip() for value in extra}
    values = {value for value in values if len(value) >= _SHORTEST_SECRET}
    # As they stand in a repr and in a URL, too.
    values |= {repr(value)[1:-1] for value in values} | {quote(value, safe="") for value in values}
    return tuple(sorted(values, key=lambda value: (-len(value), value)))


def redact_known(text: str, extra_secrets: Iterable[str | None] = ()) -> str:
    """``text`` without the known keys; all else stays as it is."""
    for secret in known_secrets(extra_secrets):
        if secret in text:
            text = text.replace(secret, REDACTED)
    return text


def redact(text: str, extra_secrets: Iterable[str | None] = ()) -> str:
    """``text`` without known keys and without anything that looks like a key, a token or a password.

    Idempotent. Covers ``sk-…`` and other announced keys, ``Bearer …``, ``Authorization`` and ``api-key`` headers,
    ``api_key=…`` and its like in URLs, ``user:password@`` in URLs, and the values of :data:`KEY_VARIABLES`.
    """
    text = redact_known(text, extra_secrets)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def without_keys(value: Any) -> Any:
    """A JSON value with :func:`redact` on every text in it, and on what is named like a secret in a list of options
    (``--api-key=…``, or ``--api-key`` and the value behind it)."""
    if isinstance(value, str):
        name, equals, _ = value.partition("=")
        return f"{name}={REDACTED}" if equals and _names_secret(name) else redact(value)
    if isinstance(value, Mapping):
        return {name: without_keys(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        behind = [False, *(isinstance(item, str) and _names_secret(item) for item in value)]
        return [REDACTED if follows else without_keys(item) for item, follows in zip(value, behind, strict=False)]
    return value


def _names_secret(option: str) -> bool:
    """Whether an option of the command line is named like a secret: ``--openai-api-key``, ``--token``."""
    last = re.fullmatch(rf"--(?:[\w-]+[-_])?{_SECRET_NAME}", option, re.IGNORECASE)
    return last is not None


class RedactingFilter(logging.Filter):
    """A log filter that rewrites each record's text with :func:`redact`. Never drops a record."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except Exception:  # a malformed record is its author's to see
            return True
        clean = redact(message)
        if clean != message:
            record.msg, record.args = clean, None
        return True


#: Loggers of the HTTP stack that write URLs and headers.
_HTTP_LOGGERS = (
    "httpx", "httpx2", "openai", "openai._base_client", "openai._legacy_response", "openai._response",
    "httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy",
    "httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "httpcore2.proxy",
)  # fmt: skip


def protect_http_logs() -> None:
    """Put a :class:`RedactingFilter` on the HTTP stack's loggers; calling it again changes nothing."""
    for name in _HTTP_LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(present, RedactingFilter) for present in logger.filters):
            logger.addFilter(RedactingFilter())
