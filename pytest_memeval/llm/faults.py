"""What a server's error answer means: try again, give up, or ask in another way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

FaultKind = Literal["retry", "timeout", "quota", "auth", "overflow", "refused", "rejected"]

#: Statuses with which servers reject a parameter that they do not know.
_PARAMETER_STATUSES = (400, 405, 422, 501)
_RETRIED_STATUSES = (408, 409, 425, 429)
_OVERFLOW = (
    r"context_length_exceeded|exceed_context_size|maximum context length|prompt is too long"
    r"|context (?:size|window|length) (?:exceeded|of)|longer than the model'?s context"
    r"|exceeds? the (?:available |model'?s? )?(?:maximum )?context"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A request without a usable answer. ``status`` is ``None`` where no HTTP answer came.

    ``message`` is what the server or the connection said, unredacted; ``retry_after`` is in seconds.
    """

    kind: FaultKind
    message: str
    status: int | None = None
    code: str = ""
    param: str = ""
    retry_after: float | None = None


def fault_of_answer(status: int, body: Any, retry_after: float | None = None) -> Fault:
    """The fault behind an error answer. ``body`` is the decoded JSON or the raw text."""
    message, code, param = _read_error(body)
    words = f"{code} {message}".casefold()
    kind: FaultKind
    if status == 401 or status == 403:
        kind = "auth"
    elif status == 402 or (status == 429 and _is_quota(words, retry_after)):
        kind = "quota"
    elif re.search(_OVERFLOW, words):
        kind = "overflow"
    elif status == 400 and re.search(r"\bcontent_filter\b|content_policy_violation|responsibleaipolicy", words):
        kind = "refused"
    elif status in _RETRIED_STATUSES or (status >= 500 and status != 501):
        kind = "retry"
    else:
        kind = "rejected"
    return Fault(kind, message, status, code, param, retry_after)


def _is_quota(words: str, retry_after: float | None) -> bool:
    """Whether a 429 means that no waiting helps. Some servers speak of quota for a passing limit: those say when."""
    if re.search(r"insufficient_quota|billing_hard_limit|insufficient_balance|billing_not_active", words):
        return True
    return retry_after is None and re.search(r"insufficient (?:quota|credits?|balance|funds)", words) is not None


def _read_error(body: Any) -> tuple[str, str, str]:
    """Message, code (with the type) and parameter of an error answer in the notations that servers use."""
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping | str):
        body = body["error"]
    if not isinstance(body, Mapping):
        text = "" if body is None else str(body)
        return re.sub(r"<[^>]*>", " ", text).strip() if text.lstrip().startswith("<") else text.strip(), "", ""
    code = " ".join(str(body[name]) for name in ("code", "type") if body.get(name) not in (None, ""))
    param = str(body.get("param") or "")
    message = body.get("message", body.get("detail"))
    if isinstance(message, Mapping):
        message = message.get("detail", message.get("message", message))
    if isinstance(message, list) and message and isinstance(message[0], Mapping):
        # Validation errors as a list of {"loc": ["body", "name"], "msg": …, "type": …}
        first = message[0]
        location = [str(part) for part in first.get("loc", ()) if part != "body"]
        param = param or ".".join(location)
        code = f"{code} {first.get('type', '')}".strip()
        message = f"{'.'.join(location)}: {first.get('msg', '')}"
    return str(message if message is not None else dict(body)).strip(), code, param


_NEGATION = (
    r"(?:(?:is|are)(?: not|n't) (?:yet |currently )?(?:supported|permitted|allowed|available|recogni[sz]ed|accepted"
    r"|implemented|enabled|compatible|a valid)|not (?:supported|permitted|allowed|available)\b|unsupported|unavailable"
    r"|unrecogni[sz]ed|does(?: not|n't) support|deprecated|extra_forbidden|cannot be used|can't be used"
    r"|only (?:the )?default|may only be set|must be set to 1\b"
    r"|only 1(?:\.0)? is (?:allowed|supported)|only supports?\b)"
)
_COMPLAINT = (
    r"(?:(?:unsupported|unrecogni[sz]ed|unknown|unexpected|extra|invalid|forbidden)\s+(?:request\s+)?"
    r"(?:parameter|argument|field|input|key|keyword argument|property|option)s?(?:\s+supplied)?"
    r"|unsupported\s+(?:value|type)|unsupported)"
)
_FORMAT_NAMES = (
    r"(?:response[_ ]format(?:\.type)?|json_schema|json_object|json[ _-]mode|json schema|structured[ _-]outputs?)"
)


def rejected_parameter(fault: Fault, sent: Mapping[str, Any]) -> str | None:
    """The parameter of the request ``sent`` that the server does not take: its name, or ``None``.

    Only ``max_tokens``, ``max_completion_tokens``, ``temperature`` and ``response_format`` are considered, and only an
    answer that complains about the parameter as such. One that merely mentions it, or complains about something else,
    or about the parameter's size, is no rejection.
    """
    if fault.kind != "rejected" or fault.status not in _PARAMETER_STATUSES:
        return None
    message = fault.message.casefold()
    param = fault.param.casefold()
    code_rejects = re.search(
        r"unsupported_(?:parameter|value)|unknown_parameter|extra_forbidden", fault.code.casefold()
    )
    if "response_format" in sent and re.search(r"must contain the word ['\"`]?json", message):
        return "response_format"
    found: list[tuple[int, str]] = []
    for name in ("max_tokens", "max_completion_tokens", "temperature", "response_format"):
        if name not in sent:
            continue
        names_it = param == name or param.startswith((f"{name}.", f"{name}["))
        if param and not names_it:
            continue
        if names_it and (code_rejects or name == "response_format"):
            return name
        pattern = _FORMAT_NAMES if name == "response_format" else rf"(?<![\w-]){name}(?![\w-])"
        places = [
            match.start()
            for match in (
                re.search(rf"{pattern}[^.;,()\n]{{0,60}}?{_NEGATION}", message),
                re.search(rf"{_COMPLAINT}[^.;,()\n]{{0,25}}?{pattern}", message),
                re.search(rf"does(?: not|n't) support(?:[\s'\"`]+\w+){{0,2}}?[\s'\"`]+{pattern}", message),
                re.search(r"invalid value: ['\"`]?json_(?:schema|object)|invalid schema for response_format", message)
                if name == "response_format"
                else None,
                re.search(rf"invalid {name}: only", message),
            )
            if match is not None
        ]
        if places:
            found.append((min(places), name))
    return min(found)[1] if found else None
