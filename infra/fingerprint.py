"""Is this the function that was pickled before? Asked of two pickles whose bytes differ though nothing changed.

Pickles of one function differ from process to process: sets lie in the order of
the process's own hashes, and cloudpickle names each class by a number it draws.
"""

from __future__ import annotations

import hashlib
import pickletools
import re

_DRAWN = re.compile(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}")  # a UUID of version 4, as cloudpickle draws them
_PACKAGING = frozenset({"PROTO", "FRAME"})
_FETCHES = frozenset({"BINGET", "LONG_BINGET"})
_WHOLE = re.compile(r"(SHORT_)?BIN(UNICODE|BYTES)8?|TUPLE[123]?|FROZENSET")  # never filled later, so equal by content


def fingerprint(pickled: bytes) -> str:
    """SHA-256 of what the pickle says, whatever the order of its sets and the numbers that were drawn for classes.

    It follows the pickle's own stack: each operation becomes a digest of itself and of what it takes.
    """
    said: list[str] = []
    stack: list[str] = []
    marks: list[int] = []
    memo: list[str] = []
    last = ""
    for operation, argument, _ in pickletools.genops(pickled):
        name = operation.name
        if name == "MARK":
            marks.append(len(stack))
        elif name == "MEMOIZE":
            memo.append(stack[-1] if _WHOLE.fullmatch(last) else f"object {len(memo)}")
        elif name in _FETCHES:
            assert isinstance(argument, int), "the index of a memo"
            stack.append(memo[argument])
        elif name not in _PACKAGING:
            taken = _take(stack, marks, operation.stack_before)
            digest = _digest(name, argument, taken)
            stack += [digest] * len(operation.stack_after)
            said += [] if operation.stack_after else [digest]
        last = name
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


def _take(stack: list[str], marks: list[int], before: list[pickletools.StackObject]) -> list[str]:
    """What an operation takes from the stack."""
    has_mark = pickletools.markobject in before
    start = marks.pop() - before.index(pickletools.markobject) if has_mark else len(stack) - len(before)
    taken = stack[start:]
    del stack[start:]
    return taken


def _digest(name: str, argument: object, taken: list[str]) -> str:
    if name == "FROZENSET":
        taken = sorted(taken)
    elif name == "ADDITEMS":
        taken = [taken[0], *sorted(taken[1:])]
    said = "\n".join([name, _words(argument), *taken])
    return hashlib.sha256(said.encode()).hexdigest()


def _words(argument: object) -> str:
    """Bytes, such as those of arrays, may be many and hold nothing that was drawn."""
    if isinstance(argument, bytes | bytearray):
        return hashlib.sha256(argument).hexdigest()
    return _DRAWN.sub("drawn", repr(argument))
