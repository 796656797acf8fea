"""What goes over the wire between the SaaS and its clients."""

from __future__ import annotations

import base64
import binascii
from typing import Any, NamedTuple, Self

import msgspec

from churnbench.cuts import Cut

__all__ = ["CLIENT", "LATENCY", "PACE", "VIRTUAL_TIME", "ApiError", "Cursor", "ErrorBody", "Page", "SaasLimits"]

CLIENT = "X-Client"
"""Request: whom the rate limit counts."""
LATENCY = "X-Latency"
"""Answer: seconds that the request took."""
PACE = "X-Pace"
"""Answer: real or virtual."""
VIRTUAL_TIME = "X-Virtual-Time"
"""Both, at a virtual pace: the client's time in seconds."""


class SaasLimits(msgspec.Struct, frozen=True):
    """How slow and how strict the service is.

    Attributes:
        latency_seconds: that every admitted request takes.
        requests: admitted per client in any `window_seconds`.
        window_seconds: length of the sliding window.
        page_size: items of a page where the query does not say.
        most_page_size: what a query may ask for.
        pinned_listings: how many listings keep their cut at once.
        pinned_items: how many items these hold at most together; the newest is kept whatever its size.
    """

    latency_seconds: float = 0.35
    requests: int = 60
    window_seconds: float = 60.0
    page_size: int = 100
    most_page_size: int = 500
    pinned_listings: int = 32
    pinned_items: int = 500_000


class Page(msgspec.Struct, frozen=True):
    """A page as it goes over the wire; see the module."""

    items: list[Any]
    next: str | None
    cut: Cut
    at: int | None


class ErrorBody(msgspec.Struct, frozen=True):
    """What went wrong: a word for programs and a line for people."""

    code: str
    message: str


class ApiError(msgspec.Struct, frozen=True):
    """The body of every answer that is an error."""

    error: ErrorBody


class Cursor(NamedTuple):
    """Where a listing goes on.

    Attributes:
        version: of the view that its first page was of.
        query: digest of the resource and the filters.
        offset: of the next item, from 1.
    """

    version: str
    query: str
    offset: int

    def text(self) -> str:
        """The cursor as a client carries it."""
        return base64.urlsafe_b64encode(_encoder.encode(self)).decode()

    @classmethod
    def parse(cls, text: str) -> Self:
        """The cursor in `text`.

        Raises:
            ValueError: it is none that `text()` gave out.
        """
        try:
            cursor = cls(*_cursor.decode(base64.b64decode(text.encode(), altchars=b"-_", validate=True)))
        except (binascii.Error, ValueError, msgspec.DecodeError) as error:
            raise ValueError(f"{text[:40]!r} is no cursor that was given out") from error
        if cursor.offset < 1:
            raise ValueError(f"a cursor's offset is 1 at least, not {cursor.offset}")
        return cursor


_encoder = msgspec.json.Encoder()
_cursor = msgspec.json.Decoder(tuple[str, str, int])
