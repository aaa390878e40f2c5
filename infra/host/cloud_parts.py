"""How does a long file travel to a bucket? In parts of one resumable upload; after a break it goes on where it was."""

from __future__ import annotations

from email.message import Message
from typing import BinaryIO

from prefect_tpu.infra.host.cloud_calls import Call, Caller, CallFailed

PART_BYTES = 8 * 2**20  # a multiple of 256 KiB, which Cloud Storage wants
_GOES_ON = 308
_ENDED = (404, 410)  # the upload is forgotten: after a week, or by Cloud Storage's own trouble
_BREAKS = 20  # of one upload: tries that brought it no further


def send_in_parts(caller: Caller, address: str, source: BinaryIO, size: int) -> None:
    """Send a file to the address of a new resumable upload. After a `CallFailed` another one is needed."""
    at: int | None = 0
    breaks = 0
    while at is not None:
        before = at
        try:
            at = _send(caller, address, source, at, size)
        except CallFailed as exc:
            if exc.code in _ENDED:
                raise CallFailed(503, f"the upload was forgotten: {exc.said}") from exc
            if not exc.is_worth_repeating or breaks >= _BREAKS:
                raise
            at = caller.persevere(lambda: _ask(caller, address, size))
        if at is not None and at <= before:
            breaks += 1
            if breaks > _BREAKS:
                raise CallFailed(503, f"of its {size} bytes no more than {at} are taken")


def _send(caller: Caller, address: str, source: BinaryIO, at: int, size: int) -> int | None:
    """One part. Where the next one begins; None when all are there."""
    source.seek(at)
    part = source.read(min(PART_BYTES, size - at))
    return _put(caller, address, f"bytes {at}-{at + len(part) - 1}/{size}", part)


def _ask(caller: Caller, address: str, size: int) -> int | None:
    """How far the upload is, by Cloud Storage's account."""
    return _put(caller, address, f"bytes */{size}", b"")


def _put(caller: Caller, address: str, span: str, part: bytes) -> int | None:
    try:
        caller.once(Call(method="PUT", url=address, headers={"Content-Range": span}, body=part))
    except CallFailed as exc:
        if exc.code == _GOES_ON:
            return _next(exc.headers)
        raise
    return None


def _next(headers: Message[str, str]) -> int:
    """From `Range: bytes=0-524287`; without one nothing has arrived."""
    last = headers.get("Range", "").rpartition("-")[2]
    return int(last) + 1 if last else 0
