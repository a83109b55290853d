"""Searching with a system that runs elsewhere: ``module:attribute``, or an HTTP endpoint.

An endpoint gets one POST a query and combination, ``{"query": …, "params": {…}}``, and answers with a JSON list of ids,
``{"ids": […]}`` or ``{"hits": [{"id": …}, …]}``, best first, status 200. Everything else is a failure of that call.
"""

from __future__ import annotations

import http.client
import importlib
import json
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pytest_memeval.llm.redaction import redact
from pytest_memeval.own_code import named, own_errors
from pytest_memeval.tuning.queries import Document, TuningError
from pytest_memeval.tuning.space import Params
from pytest_memeval.values import kind_of_value

#: An answer beyond this size is no list of ids.
_MOST_BYTES = 16_000_000


def load_search(target: str, corpus: Sequence[Document], *, timeout: float = 30.0) -> Callable[[str, Params], Any]:
    """The search that ``target`` names. TuningError where there is none.

    An object with ``search(query, params)`` is as good as a function; one with ``load(memories)`` gets the corpus
    first, as ``[{"id": …, "content": …}, …]``.
    """
    if target.startswith(("http://", "https://")):
        return HttpSearch(target, timeout=timeout)
    found = import_object(target, "--search")
    load = getattr(found, "load", None)
    if callable(load):
        try:
            load([{"id": document.id, "content": document.content} for document in corpus])
        except own_errors() as error:  # whatever the project's search does
            raise TuningError(f"--search {target}: load() failed with {named(error)}") from error
    search = getattr(found, "search", found)
    if not callable(search):
        raise TuningError(f"--search {target}: {kind_of_value(found)} is no function search(query, params)")
    result: Callable[[str, Params], Any] = search
    return result


def import_object(target: str, option: str) -> Any:
    """What ``module:attribute`` names, modules of the current folder included; a class is called. TuningError else."""
    module_name, colon, attribute = target.partition(":")
    if not colon or not module_name or not attribute:
        raise TuningError(
            f"{option} {target!r} is not of the form module:attribute"
            + (" or http://…" if option == "--search" else "")
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except own_errors() as error:  # whatever a module does when it is imported
        raise TuningError(f"{option} {target}: cannot import {module_name}: {named(error)}") from None
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise TuningError(f"{option} {target}: {module_name} has no {attribute}") from None
    if not isinstance(found, type):
        return found
    try:
        return found()
    except own_errors() as error:  # whatever a constructor of the project's does
        raise TuningError(f"{option} {target}: {named(error)}") from error


class HttpError(RuntimeError):
    """An endpoint's answer that is not a ranking."""


class HttpSearch:
    """Asks an endpoint; each thread keeps its connection open. Redirects and proxies are not followed."""

    def __init__(self, address: str, *, timeout: float = 30.0) -> None:
        parts = urlsplit(address)
        try:
            port = parts.port
        except ValueError:
            raise TuningError(f"--search {redact(address)!r}: the port is no number below 65536") from None
        if not parts.hostname or parts.username is not None:
            raise TuningError(f"--search {redact(address)!r} is no plain http:// or https:// address")
        self._connection = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._timeout = parts.hostname, port, timeout
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._local = threading.local()

    def __call__(self, query: str, params: Params) -> Any:
        body = json.dumps({"query": query, "params": params}, ensure_ascii=False).encode("utf-8", "surrogatepass")
        status, content = self._post(body)
        if status != 200:
            raise HttpError(f"status {status}")
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise HttpError("the answer is no JSON") from None

    def _post(self, body: bytes) -> tuple[int, bytes]:
        kept = getattr(self._local, "open", None)
        if kept is not None:
            try:
                return self._ask(kept, body)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                pass  # a server may close an idle connection: a new one is asked once
        fresh = self._connection(self._host, self._port, timeout=self._timeout)
        return self._ask(fresh, body)

    def _ask(self, connection: http.client.HTTPConnection, body: bytes) -> tuple[int, bytes]:
        self._local.open = None
        try:
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            connection.request("POST", self._path, body, headers)
            response = connection.getresponse()
            content = response.read(_MOST_BYTES + 1)
        except BaseException:
            connection.close()
            raise
        if len(content) > _MOST_BYTES:
            connection.close()
            raise HttpError("the answer is larger than 16 MB")
        if response.will_close:
            connection.close()
        else:
            self._local.open = connection
        return response.status, content
