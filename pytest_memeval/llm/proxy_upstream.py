"""The server behind the proxy: how a request reaches it, and with whose key."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from pytest_memeval.llm.http_server import HttpResponse
from pytest_memeval.llm.proxy_calls import Asked, is_key
from pytest_memeval.llm.redaction import protect_http_logs, redact
from pytest_memeval.llm.settings import ModelSettings

#: Request headers that are passed on besides the authorization, and answer headers that are passed back.
_FORWARDED = ("openai-organization", "openai-project", "openai-beta")
_RETURNED = ("retry-after", "retry-after-ms", "x-request-id", "x-should-retry")


class Upstream:
    """Sends requests to the server of ``settings``, each once, through the HTTP client of the ``openai`` package.

    Used on one event loop. A response is the client's own, its body still to be read; where none came it is an
    :class:`HttpResponse` that says why.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings
        self.sent = 0
        self._client_: Any = None

    @property
    def endpoint(self) -> str:
        """The server's name in the cache and in messages."""
        return redact(self.settings.endpoint, self.settings.secrets)

    async def request(self, method: str, path: str, body: Mapping[str, Any] | None, asked: Asked) -> Any:
        try:
            client = self._client()
            headers = {name: asked.headers[name] for name in _FORWARDED if name in asked.headers}
            headers |= self._authorization(asked.headers)
            content = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "backslashreplace")
            request = client.build_request(
                method,
                f"{self.settings.address}/{path}",
                params=self.settings.query or None,
                content=content,
                headers={**headers, "Content-Type": "application/json"},
            )
            if method == "POST":
                self.sent += 1
            return await client.send(request, stream=True)
        except Exception as error:  # however it cannot be reached: told, for the client must get an answer
            return self.unreachable(error, asked)

    def unreachable(self, error: Exception, asked: Asked) -> HttpResponse:
        """The answer to a request that the server left without one."""
        late = "Timeout" in type(error).__name__
        text = f"{self.endpoint} {'did not answer in time' if late else 'cannot be reached'} ({type(error).__name__})"
        text = redact(f"{text}: {error}".rstrip(": "), asked.secrets)
        return HttpResponse.of_error(504 if late else 502, text, "timeout" if late else "unreachable")

    def _authorization(self, given: Mapping[str, str]) -> dict[str, str]:
        """The caller's own authorization, else the settings', else what the caller sent."""
        own = given.get("authorization", "")
        if is_key(own.partition(" ")[2]):
            return {"Authorization": own}
        if is_key(given.get("api-key", "")):
            return {"api-key": given["api-key"]}
        if self.settings.userinfo is not None:
            packed = base64.b64encode(":".join(self.settings.userinfo).encode("utf-8")).decode("ascii")
            return {"Authorization": f"Basic {packed}"}
        if self.settings.api_key:
            return {"Authorization": f"Bearer {self.settings.api_key}"}
        return {"Authorization": own} if own else {}

    def _client(self) -> Any:
        if self._client_ is None:
            import openai

            protect_http_logs()
            settings = self.settings
            timeout = openai.Timeout(settings.read_timeout, connect=settings.connect_timeout, pool=None)
            self._client_ = openai.DefaultAsyncHttpxClient(timeout=timeout, trust_env=not settings.is_loopback)
        return self._client_

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client_ = self._client_, None
        if client is not None:
            await client.aclose()


def returned_headers(response: Any) -> dict[str, str]:
    """The headers of an answer that its caller needs."""
    kept = {name: response.headers[name] for name in _RETURNED if name in response.headers}
    return {"Content-Type": response.headers.get("content-type", "application/json"), **kept}


def error_text(response: HttpResponse) -> str:
    """What an error of the proxy's own says, for the record of the call."""
    return f"model_unavailable: {json.loads(response.body)['error']['message']}"
