"""How often is each part of a program done in a step? What a loop does counts as often as it goes round.

The compiler's own counts take a loop once, whatever its rounds: a model whose layers are scanned would seem to have
one layer. Its text says no rounds either, but what a loop counts, from where, by how much, and up to what.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prefect_tpu.infra.compiler.hlo import Computation, Instruction, Program

_SAME = frozenset({"copy", "bitcast", "convert", "reshape", "copy-start", "copy-done", "optimization-barrier"})
_NUMBER = re.compile(r"[su]\d+\[\]")
_BRANCHES = frozenset({"branch_computations", "true_computation", "false_computation"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How often a computation is done; not exact where the text does not say it: then it is at least that often."""

    count: int
    is_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """A whole number: that of an element of what a loop carries, and so much more; None for a plain number."""

    element: int | None
    more: int


_Value = _Whole | tuple["_Value", ...] | None  # a tuple of values; None for whatever else


def executions(program: Program) -> Mapping[str, Times]:
    """Of each computation that is done at all."""
    done: dict[str, Times] = {}
    for name in _callers_first(program):
        times = done.setdefault(name, Times(count=1, is_exact=True))
        for caller in program.computations[name].instructions.values():
            for how, called in caller.called:
                if called in program.computations:
                    done[called] = _more(done.get(called), times, _each(program, name, caller, how))
    return done


def _each(program: Program, computation: str, caller: Instruction, how: str) -> Times:
    """How often a computation is done at each time that its caller is."""
    if caller.opcode == "while":
        rounds = _rounds(program, program.computations[computation], caller)
        return Times(count=1, is_exact=False) if rounds is None else Times(count=rounds, is_exact=True)
    return Times(count=1, is_exact=how not in _BRANCHES)


def _more(before: Times | None, caller: Times, each: Times) -> Times:
    count, is_exact = caller.count * each.count, caller.is_exact and each.is_exact
    if before is not None:
        count, is_exact = count + before.count, is_exact and before.is_exact
    return Times(count=count, is_exact=is_exact)


def _callers_first(program: Program) -> list[str]:
    """Every computation that the entry reaches, none before all that have it done."""
    seen: set[str] = set()
    order: list[str] = []
    stack = [(program.entry, iter(_called(program, program.entry)))]
    while stack:
        name, rest = stack[-1]
        following = next((called for called in rest if called not in seen), None)
        if following is not None:
            seen.add(following)
            stack.append((following, iter(_called(program, following))))
        else:
            order.append(stack.pop()[0])
    return order[::-1]


def _called(program: Program, name: str) -> Iterator[str]:
    for instruction in program.computations[name].instructions.values():
        yield from (called for _, called in instruction.called if called in program.computations)


def _rounds(program: Program, computation: Computation, loop: Instruction) -> int | None:
    """Of a loop that counts by a fixed step up or down to a fixed number; None of any other."""
    condition, body = (_reached(program, loop, how) for how in ("condition", "body"))
    if condition is None or body is None:
        return None
    test = _test(program, condition)
    begin = _value(program, computation, loop.operands[0], ())
    end = _value(program, body, body.root, _CARRIED)
    if test is None or not isinstance(begin, tuple) or not isinstance(end, tuple):
        return None
    left, right, direction = test
    now, step = _apart(left, right, begin), _step(left, right, end)
    return None if now is None or step is None else _until(now, step, direction)


_CARRIED: Sequence[_Value] = ()  # the one parameter of a loop's parts: its elements are what `_Whole.element` counts


def _reached(program: Program, loop: Instruction, how: str) -> Computation | None:
    return next((program.computations.get(name) for by, name in loop.called if by == how), None)


def _test(program: Program, condition: Computation) -> tuple[_Whole, _Whole, str] | None:
    """What is compared, and how."""
    computation, given = condition, _CARRIED
    root = computation.instructions[computation.root]
    while root.opcode == "fusion":
        given = [_value(program, computation, name, given) for name in root.operands]
        computation = program.computations[root.called[0][1]]
        root = computation.instructions[computation.root]
    if root.opcode != "compare":
        return None
    left, right = (_value(program, computation, name, given) for name in root.operands)
    if not isinstance(left, _Whole) or not isinstance(right, _Whole):
        return None
    return left, right, root.attribute(r"direction=(\w+)")


def _apart(left: _Whole, right: _Whole, begin: tuple[_Value, ...]) -> int | None:
    """How far the two are apart before the first round."""
    values = [_Whole(element=None, more=0) if side.element is None else begin[side.element] for side in (left, right)]
    first, second = values
    if not isinstance(first, _Whole) or not isinstance(second, _Whole):
        return None
    if first.element is not None or second.element is not None:
        return None
    return first.more + left.more - second.more - right.more


def _step(left: _Whole, right: _Whole, end: tuple[_Value, ...]) -> int | None:
    """By how much that changes in a round."""
    steps = []
    for side in (left, right):
        value = _Whole(element=None, more=0) if side.element is None else end[side.element]
        if not isinstance(value, _Whole) or value.element != side.element:
            return None
        steps.append(value.more)
    return steps[0] - steps[1]


def _until(now: int, step: int, direction: str) -> int | None:
    """After how many rounds of so much each the comparison with zero does not hold."""
    if direction in ("GT", "GE"):
        now, step = -now, -step
    if direction in ("LT", "GT") and step > 0:
        return max(0, -(now // step))
    if direction in ("LE", "GE") and step > 0:
        return max(0, -now // step + 1)
    if direction == "NE" and step and now % step == 0 and -now // step >= 0:
        return -now // step
    return None


def _value(program: Program, computation: Computation, name: str, given: Sequence[_Value]) -> _Value:
    """What an instruction gives, as far as it is a number that can be known; `given` are the parameters."""
    one = computation.instructions.get(name)
    if one is None or not (one.shape.startswith("(") or _NUMBER.match(one.shape)):
        return None
    if one.opcode == "parameter":
        place = computation.parameters.get(name, 0)
        return given[place] if given else None
    if one.opcode == "constant":
        return _Whole(element=None, more=int(one.written)) if one.written.lstrip("-").isdigit() else None
    if one.opcode == "get-tuple-element":
        return _element(program, computation, one, given)
    if one.opcode == "tuple":
        return tuple(_value(program, computation, operand, given) for operand in one.operands)
    if one.opcode in _SAME:
        return _value(program, computation, one.operands[0], given)
    if one.opcode in ("add", "subtract"):
        return _sum(one.opcode, *(_value(program, computation, operand, given) for operand in one.operands))
    if one.opcode == "fusion":
        inner = program.computations[one.called[0][1]]
        handed = [_value(program, computation, operand, given) for operand in one.operands]
        return _value(program, inner, inner.root, handed)
    return None


def _element(program: Program, computation: Computation, one: Instruction, given: Sequence[_Value]) -> _Value:
    place = int(one.attribute(r"index=(\d+)"))
    of = computation.instructions.get(one.operands[0])
    if of is not None and of.opcode == "parameter" and not given:
        return _Whole(element=place, more=0)
    whole = _value(program, computation, one.operands[0], given)
    return whole[place] if isinstance(whole, tuple) and place < len(whole) else None


def _sum(opcode: str, left: _Value, right: _Value) -> _Value:
    if not isinstance(left, _Whole) or not isinstance(right, _Whole):
        return None
    if opcode == "subtract" and right.element is None:
        return _Whole(element=left.element, more=left.more - right.more)
    if opcode == "add" and None in (left.element, right.element):
        element = right.element if left.element is None else left.element
        return _Whole(element=element, more=left.more + right.more)
    return None
