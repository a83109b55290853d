from __future__ import annotations

import pytest

from pytest_memeval.engine.protocol import StageError
from pytest_memeval.failures import case_error
from pytest_memeval.outputs import OutputError


@pytest.mark.parametrize("kind", [ValueError, OutputError, StageError])
def test_addresses_of_objects_are_left_out(kind: type[Exception]) -> None:
    texts = {case_error("l1", kind(f"{thing!r} has no text (0x10 of 16)")).message for thing in (object(), object())}
    (text,) = texts
    assert "<object object at 0x…> has no text (0x10 of 16)" in text


class ClientError(Exception):
    """As the clients' errors are: with what the server answered."""

    def __init__(self, *, body: object = None, response: object = None) -> None:
        super().__init__("Error code: 404")
        self.body = body
        self.response = response


class Response:
    def __init__(self, data: object) -> None:
        self.data = data

    def json(self) -> object:
        if isinstance(self.data, Exception):
            raise self.data
        return self.data


MISS = {"message": "stage l1: the cache holds no answer", "code": "not_recorded", "type": "memeval"}


def chained(error: Exception) -> Exception:
    """The client's error, wrapped by an engine."""
    try:
        try:
            raise error
        except ClientError as inner:
            raise RuntimeError("extraction failed") from inner
    except RuntimeError as outer:
        return outer


@pytest.mark.parametrize(
    "error",
    [
        ClientError(body=MISS),
        ClientError(body={"error": MISS}),
        ClientError(response=Response({"error": MISS})),
        chained(ClientError(body=MISS)),
    ],
)
def test_a_miss_of_the_proxy_is_told_as_one(error: Exception) -> None:
    found = case_error("l1", error)
    assert (found.stage, found.kind, found.message) == ("l1", "not_recorded", "stage l1: the cache holds no answer")


@pytest.mark.parametrize(
    "error",
    [
        ClientError(body={"message": "no", "code": "model_not_found"}),
        ClientError(body={"message": None, "code": "not_recorded"}),
        ClientError(body="not_recorded"),
        ClientError(response=Response([1])),
        ClientError(response=Response(ValueError("not read"))),
        ValueError("not_recorded"),
    ],
)
def test_any_other_refusal_is_the_engines_exception(error: Exception) -> None:
    assert case_error("l1", error).kind == "engine_exception"
