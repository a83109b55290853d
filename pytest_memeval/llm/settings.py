"""Where a chat model lives and how it is asked. Keys come from the environment and are never stored."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from pytest_memeval.documents.bounds import seconds_problem
from pytest_memeval.llm.redaction import is_secret_name, redact

Role = Literal["model", "judge"]

DEFAULT_BASE_URL = "https://api.openai.com/v1"

#: Environment variables that may hold the key, the first one set is used.
KEY_VARIABLES_OF_ROLE: dict[Role, tuple[str, ...]] = {
    "model": ("MEMEVAL_API_KEY", "OPENAI_API_KEY"),
    "judge": ("MEMEVAL_JUDGE_API_KEY", "MEMEVAL_API_KEY", "OPENAI_API_KEY"),
}

#: What is sent as a key to a server that asks for none.
NO_KEY = "none"


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One model on one server.

    ``endpoint_name`` is the name under which answers are cached (default: the base URL without credentials and query),
    so that answers can be replayed where the server's address is another or unknown. ``max_tokens`` caps an answer's
    length in tokens (``None``: the server's own cap). ``read_timeout`` bounds one request, from sending to the last
    byte, in seconds; ``call_timeout`` bounds a whole call with its retries (``None``: no bound of its own).

    Raises ``ValueError`` for a base URL that is none and for values out of range.
    """

    model: str | None = None
    base_url: str = DEFAULT_BASE_URL
    role: Role = "model"
    endpoint_name: str | None = None
    max_tokens: int | None = 4096
    connect_timeout: float = 10.0
    read_timeout: float = 180.0
    call_timeout: float | None = None
    max_attempts: int = 4

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"base URL {redact(self.base_url)!r} is no http:// or https:// address")
        for name in ("connect_timeout", "read_timeout", "call_timeout", "max_tokens", "max_attempts"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be above 0, not {value!r}")
            if value is not None and name.endswith("_timeout") and (why := seconds_problem(value)) is not None:
                raise ValueError(f"{name}: {why}")

    # The key is read when it is needed: settings can be printed, pickled and compared without carrying a secret.
    @property
    def api_key(self) -> str | None:
        """The key from the environment, or ``None``."""
        for name in KEY_VARIABLES_OF_ROLE[self.role]:
            if value := os.environ.get(name, "").strip():
                return value
        return None

    @property
    def endpoint(self) -> str:
        """The server's name in the cache and in reports; holds no secret."""
        return self.endpoint_name or self.address

    @property
    def address(self) -> str:
        """The base URL without credentials, query and trailing slash."""
        parts = urlsplit(self.base_url.strip())
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))

    @property
    def query(self) -> dict[str, str]:
        """The base URL's query parameters (``api-version`` and the like), to be sent with each request."""
        return dict(parse_qsl(urlsplit(self.base_url.strip()).query, keep_blank_values=True))

    @property
    def userinfo(self) -> tuple[str, str] | None:
        """User and password of the base URL, or ``None``."""
        parts = urlsplit(self.base_url.strip())
        if parts.username is None:
            return None
        return unquote(parts.username), unquote(parts.password or "")

    @property
    def secrets(self) -> tuple[str, ...]:
        """Everything in these settings that must not be shown: the key, and what the URL carries of the kind."""
        found = [self.api_key, *(value for name, value in self.query.items() if is_secret_name(name))]
        if self.userinfo is not None:
            user, password = self.userinfo
            found.append(password or user)  # `https://token@host` has its secret in the user's place
        return tuple(value for value in found if value)

    @property
    def is_loopback(self) -> bool:
        """Whether the server is this machine."""
        host = urlsplit(self.base_url.strip()).hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def missing_key_message(self) -> str | None:
        """One sentence if these settings need a key and the environment has none, else ``None``.

        Only OpenAI's own server is known to need one; others are sent the key if there is one.
        """
        host = urlsplit(self.base_url.strip()).hostname or ""
        if self.api_key or self.userinfo or not (host == "openai.com" or host.endswith(".openai.com")):
            return None
        names = " or ".join(KEY_VARIABLES_OF_ROLE[self.role])
        return f"the {self.role} on {self.address} needs a key: set {names} in the environment"

    def missing_model_message(self) -> str | None:
        """One sentence if no model is named, else ``None``."""
        if self.model:
            return None
        option = "--memeval-judge-model" if self.role == "judge" else "--memeval-model"
        return f"no model named for {self.address}: set {option}"

    def __repr__(self) -> str:
        return f"ModelSettings(model={self.model!r}, endpoint={self.endpoint!r}, role={self.role!r})"
