"""``memeval proxy``: records, replays and counts what a pipeline with a client of its own asks."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from pytest_memeval.cli.support import say


def add_proxy_command(commands: Any) -> None:
    """Register ``proxy`` with the sub-commands of ``memeval``."""
    proxy = commands.add_parser("proxy", help="a local OpenAI-compatible server that records and replays")
    proxy.add_argument("--base-url", metavar="URL", help="server that requests are passed on to (default: OpenAI's)")
    proxy.add_argument("--endpoint", metavar="NAME", help="name of that server in the cache (default: its address)")
    proxy.add_argument("--host", default="127.0.0.1", help="own address, on this machine (default: 127.0.0.1)")
    proxy.add_argument("--port", type=int, default=8711, help="own port, 0 for any free one (default: 8711)")
    proxy.add_argument(
        "--cache",
        default="auto",
        metavar="MODE",
        help="auto, record, replay, refresh, batch or off, as --memeval-cache (default: auto)",
    )
    proxy.add_argument("--cache-dir", type=Path, metavar="DIR", help="cache folder, as in memeval cache")
    proxy.add_argument("--rpm", type=float, metavar="N", help="requests a minute")
    proxy.add_argument("--tpm", type=float, metavar="N", help="tokens a minute")
    proxy.add_argument("--request-timeout", type=float, default=180.0, metavar="SECONDS")
    proxy.set_defaults(command=_proxy)


def _proxy(arguments: argparse.Namespace) -> int:
    from pytest_memeval.cli.cache import cache_folder
    from pytest_memeval.llm.batch import REQUESTS_FILE_NAME, BatchRequests
    from pytest_memeval.llm.cache import CACHE_FILE_NAME, AnswerCache
    from pytest_memeval.llm.proxy import Proxy
    from pytest_memeval.llm.proxy_server import RunningProxy
    from pytest_memeval.llm.rate import RateLimiter
    from pytest_memeval.llm.settings import DEFAULT_BASE_URL, ModelSettings
    from pytest_memeval.options import SettingsError

    try:
        settings = ModelSettings(
            base_url=arguments.base_url or DEFAULT_BASE_URL,
            endpoint_name=arguments.endpoint,
            read_timeout=arguments.request_timeout,
        )
        folder = cache_folder(arguments.cache_dir)
        mode = arguments.cache
        cache = AnswerCache(folder / CACHE_FILE_NAME, readonly=mode == "replay") if mode != "off" else None
        proxy = Proxy(
            settings,
            cache=cache,
            mode=mode,
            requests=BatchRequests(folder / REQUESTS_FILE_NAME) if mode == "batch" else None,
            limiter=RateLimiter(arguments.rpm, arguments.tpm),
        )
        running = RunningProxy(proxy, host=arguments.host, port=arguments.port)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    except (OSError, OverflowError) as error:
        raise SettingsError(f"cannot listen on port {arguments.port}: {error}") from None
    where = f"cache {mode}" + (f" in {cache.path}" if cache is not None else "")
    say(f"listening on {running.base_url} for {proxy.endpoint}, {where}")
    try:
        _wait()
    except KeyboardInterrupt:
        pass
    finally:
        running.close()
        if cache is not None:
            cache.close()
        say(f"{proxy.log.cached} answered from the cache, {proxy.upstream.sent} sent on, {proxy.log.failed} failed")
    return 0


def _wait() -> None:
    import signal

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    while True:
        time.sleep(3600)
