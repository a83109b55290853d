"""Embeddings by way of the proxy, kept text by text, and the list of models."""

from __future__ import annotations

import asyncio
import base64
import time
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_memeval.llm.cache_entry import ChatRequest
from pytest_memeval.llm.http_server import HttpResponse
from pytest_memeval.llm.protocol import ChatReply, Usage
from pytest_memeval.llm.proxy_calls import RECORD_IT, Asked, decoded
from pytest_memeval.llm.proxy_upstream import error_text, returned_headers
from pytest_memeval.llm.rate import estimate_tokens
from pytest_memeval.llm.redaction import redact
from pytest_memeval.llm.vectors import read_vectors
from pytest_memeval.llm.wire import JunkBody, read_usage

if TYPE_CHECKING:
    from pytest_memeval.llm.proxy import Proxy


async def embed_texts(proxy: Proxy, body: dict[str, Any], asked: Asked) -> HttpResponse:
    """Vectors for the texts of a request, those that are recorded from the cache."""
    given = body.get("input")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        return HttpResponse.of_error(400, "the proxy embeds a text or a list of texts", "bad_request")
    # The dimension is the caller's to choose: one name stands for several models then.
    name = "@".join(str(body[key]) for key in ("model", "dimensions") if body.get(key) is not None)
    held: dict[str, list[float]] = {}
    if proxy.cache is not None and proxy.mode not in ("off", "refresh"):
        held = proxy.cache.get_vectors(proxy.endpoint, name, texts)
    missing = [text for text in dict.fromkeys(texts) if text not in held]
    if missing and proxy.mode in ("replay", "batch"):
        what = f"the cache holds no embedding of {name} on {proxy.endpoint} for {len(missing)} of {len(texts)} texts"
        return proxy.refused(asked, None, 404, "not_recorded", f"{what}; {RECORD_IT}")
    usage, seconds = Usage(0, 0), 0.0
    if missing:
        began = time.perf_counter()
        permit = await proxy.permit(estimate_tokens([{"content": text} for text in missing]))
        asking = {**body, "input": missing, "encoding_format": "float"}
        response = await proxy.upstream.request("POST", "embeddings", asking, asked)
        if not isinstance(response, HttpResponse):
            if response.status_code != 200:
                return await proxy.whole(
                    response, asked, ChatRequest(proxy.endpoint, name, (), stage=asked.stage), permit, began, 1
                )
            data = decoded((await response.aread()).decode("utf-8", "replace"))
            await response.aclose()
            try:
                new = dict(zip(missing, read_vectors(data, len(missing)), strict=True))
            except JunkBody as junk:
                return proxy.refused(asked, None, 502, "junk", str(junk), attempts=1)
            usage, seconds = read_usage(data), time.perf_counter() - began
            proxy.settle(permit, Usage(usage.input_tokens, 0))
            if proxy.cache is not None and proxy.mode != "off":
                replaces = proxy.mode == "refresh"
                await asyncio.to_thread(proxy.cache.put_vectors, proxy.endpoint, name, new, replace=replaces)
            held |= new
        else:
            proxy.log.note(asked, error=error_text(response), attempts=1, seconds=time.perf_counter() - began)
            return response
    reply = ChatReply("", None, replace(usage, output_tokens=0), str(body.get("model")), seconds)
    proxy.log.note(asked, None, replace(reply, cached=not missing, attempts=1 if missing else 0))
    packed = body.get("encoding_format") == "base64"
    rows = [
        {"object": "embedding", "index": place, "embedding": _packed(held[text]) if packed else held[text]}
        for place, text in enumerate(texts)
    ]
    tokens = usage.input_tokens or 0
    return HttpResponse.of_json(
        {
            "object": "list",
            "data": rows,
            "model": body.get("model"),
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
    )


async def list_models(proxy: Proxy, asked: Asked) -> HttpResponse:
    """The upstream's models; without it, those that answers are recorded of."""
    if proxy.mode in ("replay", "batch"):
        assert proxy.cache is not None
        names = sorted({model for endpoint, model in proxy.cache.stats().by_model if endpoint == proxy.endpoint})
        rows = [{"id": name, "object": "model", "created": 0, "owned_by": "memeval"} for name in names if name]
        return HttpResponse.of_json({"object": "list", "data": rows})
    response = await proxy.upstream.request("GET", "models", None, asked)
    if isinstance(response, HttpResponse):
        return response
    text = redact((await response.aread()).decode("utf-8", "replace"), asked.secrets)
    await response.aclose()
    return HttpResponse(response.status_code, text.encode("utf-8"), returned_headers(response))


def _packed(vector: Sequence[float]) -> str:
    return base64.b64encode(array("f", vector).tobytes()).decode("ascii")
