"""Is this exception only the echo of another host's end?

When a host dies, the others see an error of the collective or of the
coordination service. No code tells them apart from errors of the program, so
text decides, by a table; each line of it has a test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Exception types of JAX, torch and gloo that carry errors of communication. JAX's cached dispatch raises ValueError.
_TYPES = frozenset(
    {"JaxRuntimeError", "XlaRuntimeError", "DistBackendError", "DistNetworkError", "RuntimeError", "ValueError"}
)

SIGNS = (
    r"Gloo .*(failed|timed? ?out)",
    r"gloo::",
    r"Connection (reset|closed|refused)",
    r"Socket closed",
    r"Broken pipe",
    r"UNAVAILABLE",
    r"coordination service",
    r"CoordinationService",
    r"another task died",
    r"heartbeat timeout",
    r"Barrier .*(failed|timed out|cancelled)",
    r"barrier.*DEADLINE_EXCEEDED",
    r"DEADLINE_EXCEEDED.*[Bb]arrier",
    r"peer .*(closed|lost|died)",
    r"NCCL.*(remote|unhandled system error)",
)
# With Pathways, what JAX says where a slice is lost. By these words Pathways' own tools know it.
WORKER_SIGNS = (r"\bDATA_LOSS\b", r"\bDEADLINE_EXCEEDED\b", r"\bNOT_FOUND\b", r"\bINTERNAL\b")
_JAX_TYPES = frozenset({"JaxRuntimeError", "XlaRuntimeError"})
_SIGN = re.compile("|".join(f"(?:{sign})" for sign in SIGNS), re.DOTALL)
_WORKER_SIGN = re.compile("|".join(f"(?:{sign})" for sign in WORKER_SIGNS), re.DOTALL)


def is_lost_peer(error: BaseException) -> bool:
    """Whether the error, or one that led to it, tells of another host's end."""
    return any(is_sign(type(link).__name__, message(link)) for link in chain(error))


def is_lost_worker(error: BaseException) -> bool:
    """Whether the error, or one that led to it, tells that a worker of Pathways, its proxy or its manager has ended."""
    told = any(is_worker_sign(type(link).__name__, message(link)) for link in chain(error))
    return told or is_lost_peer(error)


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those that led to it, each once."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        # An exception may count as false: one with a length, such as a list of errors that is empty.
        current = current.__context__ if current.__cause__ is None else current.__cause__


def message(error: BaseException) -> str:
    """What the error says; its own `str` may be as broken as the program that raised it."""
    try:
        return str(error)
    except Exception as exc:
        return f"(its message cannot be read: {type(exc).__name__})"


def is_sign(type_name: str, text: str) -> bool:
    return type_name in _TYPES and _SIGN.search(text) is not None


def is_worker_sign(type_name: str, text: str) -> bool:
    return type_name in _JAX_TYPES and _WORKER_SIGN.search(text) is not None
