"""Which exceptions say that memory ran out, wherever they stand in the chain of causes."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.host.out_of_memory import is_out_of_memory


class JaxRuntimeError(RuntimeError):
    """As JAX raises it."""


class OutOfMemoryError(RuntimeError):
    """As torch raises it."""


def after(cause: Exception, error: Exception) -> Exception:
    try:
        try:
            raise cause
        except Exception:
            raise error  # noqa: B904 (the context alone must do)
    except Exception as exc:
        return exc


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (MemoryError(), True),
        (type("_ArrayMemoryError", (MemoryError,), {})("Unable to allocate 8 TiB"), True),
        (JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 68719476736 bytes."), True),
        (OutOfMemoryError("CUDA out of memory."), True),
        (after(MemoryError(), ValueError("no batch")), True),
        (after(JaxRuntimeError("RESOURCE_EXHAUSTED: TPU"), RuntimeError("step failed")), True),
        (JaxRuntimeError("INTERNAL: after RESOURCE_EXHAUSTED"), False),
        (ValueError("RESOURCE_EXHAUSTED: not of JAX"), False),
        (RuntimeError("out of memory"), False),
    ],
)
def test_what_exceptions_say(error: Exception, answer: bool) -> None:
    assert is_out_of_memory(error) is answer
