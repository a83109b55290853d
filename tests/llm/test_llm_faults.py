from __future__ import annotations

from typing import Any

import pytest

from pytest_memeval.llm.faults import Fault, fault_of_answer, rejected_parameter

SENT = {"model": "m", "messages": [], "max_tokens": 64, "temperature": 0.0, "response_format": {"type": "json_schema"}}
RENAMED = {**{name: value for name, value in SENT.items() if name != "max_tokens"}, "max_completion_tokens": 64}


def body(message: Any, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


# How servers of several makes say that they do not take a parameter.
@pytest.mark.parametrize(
    ("status", "answer", "sent", "name"),
    [
        (400, body("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'"
                   " instead.", code="invalid_request_body"), SENT, "max_tokens"),
        (400, body("Unsupported parameter", param="max_tokens", code="unsupported_parameter"), SENT, "max_tokens"),
        (400, body("Unrecognized request argument supplied: max_completion_tokens"), RENAMED, "max_completion_tokens"),
        (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "max_completion_tokens"],
                           "msg": "Extra inputs are not permitted"}]}, RENAMED, "max_completion_tokens"),
        (422, {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "temperature"],
                                                          "msg": "Extra inputs are not permitted"}]}},
         SENT, "temperature"),
        (400, body("Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) value"
                   " is supported.", param="temperature", code="unsupported_value"), SENT, "temperature"),
        (400, body("This model does not support temperature"), SENT, "temperature"),
        (400, body("invalid temperature: only 1 is allowed for this model"), SENT, "temperature"),
        (400, body("`temperature` is deprecated for this model."), SENT, "temperature"),
        (400, body("This response_format type is unavailable now", param=None, code="invalid_request_error"),
         SENT, "response_format"),
        (422, "Failed to deserialize the JSON body into the target type: response_format: response_format.type"
              " `json_schema` is unavailable now at line 1 column 1193", SENT, "response_format"),
        (405, body("json_object response format is not supported for model: x", code="405"), SENT, "response_format"),
        (400, body("Invalid value: 'json_schema'. Supported values are: 'json_object' and 'text'."),
         SENT, "response_format"),
        (400, body("Invalid schema for response_format 'answer': schema must have type object",
                   param="response_format"), SENT, "response_format"),
        (400, body("'messages' must contain the word 'json' in some form, to use 'response_format' of type"
                   " 'json_object'.", param="messages"), SENT, "response_format"),
        (400, body("model x does not support structured outputs"), SENT, "response_format"),
    ],
)  # fmt: skip
def test_f26_rejections_are_recognised(status: int, answer: Any, sent: dict[str, Any], name: str) -> None:
    assert rejected_parameter(fault_of_answer(status, answer), sent) == name


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (400, body("max_tokens must be at most 16384", param="max_tokens", code="invalid_value")),
        (400, body("Invalid 'temperature': 3.0 is above the maximum of 2", param="temperature",
                   code="decimal_above_max_value")),
        (400, body("tools are not supported with temperature 0", param="tools", code="unsupported_parameter")),
        (400, body("the prompt is empty (max_tokens=64, temperature=0.0, response_format=json_schema)")),
        (400, body("role 'narrator' is not supported. temperature and max_tokens are ignored")),
        (401, body("Unsupported parameter: 'max_tokens'", param="max_tokens", code="unsupported_parameter")),
        (500, body("Unsupported parameter: 'max_tokens'", param="max_tokens", code="unsupported_parameter")),
        (400, body("Unsupported parameter: 'seed' is not supported with this model.", param="seed")),
        (400, body("'max_completion_tokens' is not supported with this model")),  # it was not sent
        (400, ""),
        (400, None),
        (400, []),
    ],
)  # fmt: skip
def test_f26_anything_else_is_no_rejection(status: int, answer: Any) -> None:
    assert rejected_parameter(fault_of_answer(status, answer), SENT) is None


@pytest.mark.parametrize(
    ("status", "answer", "retry_after", "kind"),
    [
        (429, body("You exceeded your current quota", code="insufficient_quota"), 1.0, "quota"),
        (429, body("Insufficient balance"), None, "quota"),
        (429, body("Insufficient credits right now"), 5.0, "retry"),
        (429, body("Rate limit reached"), None, "retry"),
        (402, body("Payment required"), None, "quota"),
        (401, "no", None, "auth"),
        (403, "no", None, "auth"),
        (400, body("…", type="exceed_context_size_error"), None, "overflow"),
        (400, body("Your prompt is too long. Reduce max_tokens"), None, "overflow"),
        (400, body("blocked", code="content_filter"), None, "refused"),
        (502, "<html><body>Bad gateway</body></html>", None, "retry"),
        (501, body("not implemented"), None, "rejected"),
        (404, body("no such model"), None, "rejected"),
        (301, "moved", None, "rejected"),
    ],
)  # fmt: skip
def test_kinds_of_faults(status: int, answer: Any, retry_after: float | None, kind: str) -> None:
    fault = fault_of_answer(status, answer, retry_after)
    assert fault.kind == kind
    assert fault.retry_after == retry_after


def test_markup_of_a_gateway_page_is_left_out() -> None:
    assert fault_of_answer(502, "<html><h1>Bad gateway</h1></html>").message == "Bad gateway"


def test_an_error_that_is_a_string_and_one_in_no_known_notation() -> None:
    assert fault_of_answer(400, {"error": "bad"}).message == "bad"
    assert "why" in fault_of_answer(400, {"why": "bad"}).message
    assert fault_of_answer(400, 7) == Fault("rejected", "7", 400)
