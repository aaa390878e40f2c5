"""Do all hosts do the same steps with the same values? Asked beside the program, which may wait in a collective.

Each host's thread leaves its trail on the board, the leader's compares them and leaves a verdict, and each thread that
finds one ends its program. Nobody waits for anybody, so a host that stands in a collective for ever is still heard.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import operator
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from prefect_tpu.infra.errors import HostsDiffer, UsageError
from prefect_tpu.infra.training import trail
from prefect_tpu.infra.training.board import Board, board, hear
from prefect_tpu.infra.training.giving_up import account_for
from prefect_tpu.infra.training.trail import END, Mark, Parting, Trail
from prefect_tpu.infra.value_words import in_words

SHORTEST, LONGEST = 0.25, 1.0  # seconds between two looks: a host tells, the leader compares, all hear of it
HOSTS_AT_SHORTEST = 32  # more are looked at less often: the leader's is the only board
LONGEST_VALUE = 60  # characters; of what is longer a digest is compared
LARGEST_ARRAY = 1024  # elements of an array whose values are compared
_OF_TENSORS = ("torch", "torch.nn.parameter")  # where PyTorch keeps their classes
TRAILS, VERDICT = "agree", "verdict"  # where they lie on the board

_ADVICE = (
    "All hosts must do the same steps with the same values, or they wait for each other in collectives for ever. Look"
    " at the stack of each host in its log for what depends on the host: its data, a condition, a clock."
)


def agree(step: int, **values: Any) -> None:
    """Say that this host is at `step` with these values; where another host says otherwise, all of them end.

    Call it on every host, once or more often in each step, before what the hosts do together. It waits for nobody:
    hosts are compared beside the program, and within 5 s of a difference every one of them ends with `HostsDiffer`,
    which names the host, the step and the value, also while they wait in a collective. A host whose program returns
    while the others go on is named too. On one host alone nothing is compared.

    Args:
        step: the step that begins.
        **values: numbers, text, lists and dictionaries of them, and arrays. Of an array of JAX's its type and shape,
            and where it is small and the same on all hosts its values too, once they are computed; nothing waits for
            them. Of a tensor of PyTorch's its type and shape, and its values where it is small and no GPU has it.

    Raises:
        UsageError: a value cannot be compared, or the hosts have not met: call `join()` first.
    """
    ours = _ours()
    if ours is not None:
        ours.add(_whole(step), values)


class Agreement:
    """The trail of this process, and the thread that compares it with those of the others."""

    def __init__(self, told: Board, period: float | None = None) -> None:
        self._board = told
        self._period = min(LONGEST, SHORTEST * max(1.0, told.hosts / HOSTS_AT_SHORTEST)) if period is None else period
        self._fetch_pause = LONGEST if period is None else period
        self._trail = Trail()
        self._late: dict[int, dict[str, Any]] = {}  # call → arrays that may not be computed yet
        self._computed: dict[int, dict[str, str]] = {}  # call → their values
        self._fetched_at = time.monotonic() - LONGEST
        self._lock = threading.Lock()
        self._last_told = ""

    def start(self) -> None:
        threading.Thread(target=self._run, name="agree", daemon=True).start()

    def add(self, step: int | str, values: Mapping[str, Any]) -> None:
        values = {name: _comparable(value) for name, value in values.items()}
        late = {name: value for name, value in values.items() if _is_late(value)}
        texts = {name: _text(name, value) for name, value in values.items()}
        with self._lock:
            mark = self._trail.add(step, texts)
            if late:
                self._late[mark.call] = late
        if self._late and (now := time.monotonic()) - self._fetched_at >= self._fetch_pause:
            self._fetched_at = now
            self._fetch()

    def _fetch(self) -> None:
        """Read what is computed by now, in the program's own thread: an array that it donates meanwhile ends Python."""
        with self._lock:
            kept = {mark.call for mark in self._trail.marks()}
        known = {call: self._computed.get(call, {}) for call in kept}
        for call in self._late.keys() & kept:
            ready = {name: array for name, array in self._late[call].items() if name not in known[call]}
            found = {name: text for name, array in ready.items() if (text := _computed(array)) is not None}
            known[call] = known[call] | found
        self._late = {call: arrays for call, arrays in self._late.items() if call in kept}
        self._computed = known

    def end(self) -> None:
        """The program returns: whoever goes on will find that this host does not."""
        self.add(END, {})
        with contextlib.suppress(Exception):  # the others may have gone already
            self._tell()

    def look(self) -> Parting | None:
        """Tell where this host is; the verdict, where there is one."""
        self._tell()
        if self._board.host == 0 and self._board.get(VERDICT) is None:
            trails = {int(host): trail.read(text) for host, text in self._board.below(TRAILS).items()}
            if found := trail.parting(trails):
                self._board.put(VERDICT, json.dumps({"hosts": found.hosts, "said": found.said}))
        verdict = self._board.get(VERDICT)
        if verdict is None:
            return None
        data = json.loads(verdict)
        return Parting(hosts=tuple(data["hosts"]), said=data["said"])

    def _tell(self) -> None:
        text = trail.written(self._marks())
        if text != self._last_told:
            self._board.put(f"{TRAILS}/{self._board.host}", text)
            self._last_told = text

    def _marks(self) -> list[Mark]:
        with self._lock:
            marks, computed = self._trail.marks(), self._computed
        return [replace(mark, late=computed.get(mark.call, {})) for mark in marks]

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # the coordination service is gone: JAX and the runner say so
            while (found := self.look()) is None:
                time.sleep(self._period)
            self._leave(found)

    def _leave(self, found: Parting) -> NoReturn:
        error = HostsDiffer(f"{found.said[:1].upper()}{found.said[1:]}. {_ADVICE}")
        code = account_for(error, is_our_fault=self._board.host in found.hosts)  # before anybody's end is felt here
        with contextlib.suppress(Exception):
            hear(self._board, VERDICT)
        os._exit(code)


def _whole(step: Any) -> int:
    try:
        return operator.index(step)
    except TypeError as exc:
        raise UsageError(f"agree() was given a {type(step).__name__} as its step: give a whole number.") from exc


def _comparable(value: Any) -> Any:
    """What can be compared: of a key of JAX's its numbers, of numbers and objects of NumPy's what they are."""
    dtype = getattr(value, "dtype", None)
    if str(dtype).startswith("key<"):
        import jax

        return jax.random.key_data(value)
    if dtype is None or _is_late(value) or not hasattr(value, "tobytes"):
        return value
    held = value.tolist() if value.shape == () or getattr(dtype, "hasobject", False) else None
    return held if isinstance(held, bool | int | float | list) else value  # the bytes of objects are addresses


def _held(value: Any) -> Any:
    """What a number or an array of NumPy's inside a list holds."""
    if hasattr(value, "dtype") and hasattr(value, "tolist") and not _is_late(value):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is neither a number nor text")


def _is_late(value: Any) -> bool:
    """Whether it is an array of JAX's, which may be computed later."""
    return hasattr(value, "is_ready") and hasattr(value, "is_fully_replicated")


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool | int | float | None):
        return in_words(value)
    text = _plain(name, value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE // 2]}… #{_digest(text.encode())}"


def _plain(name: str, value: Any) -> str:
    if type(value).__module__ in _OF_TENSORS:
        return _tensor(value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        kind = f"{value.dtype}{list(value.shape)}"
        return kind if _is_late(value) or not hasattr(value, "tobytes") else f"{kind} #{_digest(value.tobytes())}"
    try:
        return json.dumps(value, sort_keys=True, default=_held)
    except (TypeError, ValueError) as exc:
        raise UsageError(
            f"agree() cannot compare {name!r}, a {type(value).__name__}: give numbers, text, arrays, or lists and"
            " dictionaries of numbers and text."
        ) from exc


def _tensor(value: Any) -> str:
    """Of a tensor of PyTorch's. One on a GPU may not be computed, and is not waited for."""
    kind = f"{value.dtype}{list(value.shape)}"
    if value.device.type != "cpu" or value.layout is not sys.modules["torch"].strided or value.numel() > LARGEST_ARRAY:
        return kind
    if value.numel() == 1:
        return repr(value.item())
    return f"{kind} #{_digest(repr(value.tolist()).encode())}"


def _computed(array: Any) -> str | None:
    """Its values; None where they are not computed, are many, lie on several hosts, or were donated."""
    if array.is_deleted() or not array.is_ready() or array.size > LARGEST_ARRAY:
        return None
    if not (array.is_fully_replicated or array.is_fully_addressable):
        return None
    import numpy as np

    found = np.asarray(array)
    return repr(found.item()) if found.size == 1 else f"#{_digest(found.tobytes())}"


def _digest(raw: bytes) -> str:
    return hashlib.blake2b(raw, digest_size=4).hexdigest()


_agreement: Agreement | None = None


def _ours() -> Agreement | None:
    """This process's, from the first call on; None where there is no other host."""
    global _agreement
    if _agreement is None and (told := board("agree()")) is not None:
        _agreement = Agreement(told)
        atexit.register(_agreement.end)
        _agreement.start()
    return _agreement
