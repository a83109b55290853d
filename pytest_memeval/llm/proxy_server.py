"""The proxy together with the server that listens for it."""

from __future__ import annotations

from pytest_memeval.llm.http_server import LoopbackServer
from pytest_memeval.llm.proxy import Proxy
from pytest_memeval.llm.proxy_calls import CaseLine


class RunningProxy:
    """A proxy and the server that listens for it, until closed."""

    def __init__(self, proxy: Proxy, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.proxy = proxy
        self._server = LoopbackServer(proxy.handle, host=host, port=port)
        self._server.start()

    @property
    def base_url(self) -> str:
        """What a client takes as its base URL."""
        return f"{self._server.url}/v1"

    def case_url(self, line: CaseLine) -> str:
        """The same for the calls of one case."""
        return f"{self._server.url}/case/{line.token}/v1"

    def close(self) -> None:
        """Stop the server. Safe to call twice."""
        self._server.close(self.proxy.aclose)
