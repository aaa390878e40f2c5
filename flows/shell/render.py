"""How is shown what would be sent? As lines that read like YAML, or as JSON.

Objects of a cluster are documents that `kubectl apply --dry-run=server -f -` takes; what else there is to say stands
among them as a comment.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from prefect_tpu.infra.preview import Preview
from prefect_tpu.infra.request import Request

_SECRET = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z0-9_./]([ -~]*[!-9;-~])?")
_NUMBER = re.compile(r"[\d.][\d.a-fxoA-FXO_:+-]*|\d{4}-\d\d?-\d.*")  # or a time
_TRUTHS = frozenset(("true", "false", "yes", "no", "on", "off", "y", "n", "null", ".inf", ".nan"))
HIDDEN = "(hidden)"
MOST_CHARACTERS = 2000  # of one text in a terminal, which would have nothing else to show


def written_plan(found: Preview, request: Request, *, as_json: bool, is_for_eyes: bool = False) -> str:
    """What `run` would do, whole.

    is_for_eyes: leaves out what only a machine reads: a file's bytes, half a million characters of them.
    """
    facts, objects = _facts(found, request), list(found.plan.objects if found.plan else ())
    if as_json:
        return json.dumps({**facts, **({"objects": objects} if objects else {})})
    if is_for_eyes:
        objects = [_readable(item) for item in objects]
    told = [*lines(_for_people(facts))]
    return "\n".join(_documents(objects, told) if objects else told)


def _documents(objects: list[dict[str, Any]], told: list[str]) -> Iterator[str]:
    """In the order in which they are created. The last is the one that people want to read, so what is told of it
    stands before it, and not before the large ones.
    """
    *others, last = objects
    for item in others:
        yield from lines(item)
        yield "---"
    yield from (f"# {line}" for line in told)
    yield from lines(last)


def _facts(found: Preview, request: Request) -> dict[str, Any]:
    job = found.job
    facts: dict[str, Any] = {
        "job": job.name,
        "what": found.what,
        "accelerators": list(job.accelerators),
        "offers": list(found.offers) if len(found.offers) > len(job.accelerators) else [],
        "refused": dict(found.refused),
        "program": {"kind": job.program.kind, "target": job.program.target, "params": job.program.params},
        "payload": {
            "sha256": job.program.payload,
            "bytes": found.compressed,
            "files": dict(found.payload),
        },
        "data": {name: {"from": request.data[name], "sha256": sha256} for name, sha256 in job.data.items()},
    }
    if job.program.arguments:
        facts["program"]["arguments"] = list(job.program.arguments)
    if not found.payload:
        del facts["payload"]
    return {**{key: value for key, value in facts.items() if value or key == "what"}, **_attempt(found)}


def _attempt(found: Preview) -> dict[str, Any]:
    """The plan that every host reads, and the command of each; what was said above is left out."""
    if found.plan is None:
        return {}
    plan = asdict(found.plan.hosts)
    for said in ("job", "program", "data", "python"):
        plan.pop(said)
    plan["env"] = _without_secrets(plan["env"])
    hosts = [{"host": number, "command": list(words)} for number, words in enumerate(found.plan.commands)]
    pools = {"pools": list(found.plan.pools)} if found.plan.pools else {}
    return {**pools, "plan": plan, **({"hosts": hosts} if hosts else {})}


def _for_people(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the command of each host as a shell takes it."""
    if "hosts" not in facts:
        return facts
    return {**facts, "hosts": [{**host, "command": shlex.join(host["command"])} for host in facts["hosts"]]}


def _readable(item: dict[str, Any]) -> dict[str, Any]:
    files = item.get("binaryData")
    if not files:
        return item
    shown = {
        name: text if len(text) <= MOST_CHARACTERS else f"({len(text)} characters, written out in a file or pipe)"
        for name, text in files.items()
    }
    return {**item, "binaryData": shown}


def _without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """Secrets have no place in `env`; where one got there all the same, it is not shown."""
    return {name: HIDDEN if _SECRET.search(name) else value for name, value in env.items()}


def lines(facts: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Facts as YAML reads them: by name, in their order, text bare where it stays the same text."""
    for name, item in facts.items():
        key = f"{indent}{_scalar(name)}"
        if isinstance(item, Mapping) and item:
            yield f"{key}:"
            yield from lines(item, f"{indent}  ")
        elif isinstance(item, list | tuple) and item and all(isinstance(part, Mapping) and part for part in item):
            yield f"{key}:"
            for part in item:
                first, *rest = lines(part, f"{indent}    ")
                yield f"{indent}  - {first.strip()}"
                yield from rest
        else:
            yield f"{key}: {_scalar(item)}"


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) and _is_plain(value) else _flow(value)


def _is_plain(text: str) -> bool:
    """Whether YAML reads the bare words as this text: no mark of its own, no number, no truth."""
    if ": " in text or " #" in text or text.lower() in _TRUTHS:
        return False
    return _PLAIN.fullmatch(text) is not None and _NUMBER.fullmatch(text) is None


def _flow(value: Any) -> str:
    """In one line, as JSON; but for what YAML reads otherwise: numbers without a point, and what cannot be seen."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_flow(name)}: {_flow(item)}' for name, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_flow, value))}]"
    written = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and "." not in written:
        return written.replace("e", ".0e")
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in written)
