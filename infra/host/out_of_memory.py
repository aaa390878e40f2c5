"""Does this exception say that memory ran out, of the host or of its chips?"""

from __future__ import annotations

from prefect_tpu.infra.host.lost_peer import chain, message

_OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"  # how messages of JAX begin when chips or host have none
_JAX_ERRORS = frozenset({"JaxRuntimeError", "XlaRuntimeError"})
_TORCH_ERROR = "OutOfMemoryError"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the error, or one that led to it, says so."""
    return any(_says_so(link) for link in chain(error))


def _says_so(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == _TORCH_ERROR:
        return True
    return type(error).__name__ in _JAX_ERRORS and message(error).startswith(_OUT_OF_MEMORY)
