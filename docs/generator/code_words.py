"""What does the code say of itself? Meanings from its docstrings and from the comments beside its names."""

from __future__ import annotations

import ast
import inspect
import io
import re
import textwrap
import tokenize
from types import ModuleType

_SECTION = re.compile(r"^(?P<name>Args|Returns|Raises|Yields):\n(?P<body>(?:[ \t]+.*\n?|\n(?=[ \t]))+)", re.MULTILINE)
_ENTRY = re.compile(r"^(?P<names>[\w*]+(?:, [\w*]+)*): (?P<text>.+(?:\n[ \t]+.+)*)", re.MULTILINE)


def doc(item: object) -> str:
    """The docstring without its indentation; empty where there is none of its own."""
    return inspect.cleandoc(getattr(item, "__doc__", None) or "")


def prose(item: object) -> str:
    """What a docstring says outside its sections and its list of fields, one paragraph a line."""
    text = _SECTION.sub("", doc(item))
    if isinstance(item, type):
        text = _ENTRY.sub("", text)
    return "\n\n".join(flat(part) for part in text.split("\n\n") if part.strip())


def section(item: object, name: str) -> dict[str, str]:
    """Name → meaning of `Args`, `Raises`; a section without names stands under an empty one."""
    bodies = {found["name"]: textwrap.dedent(found["body"]) for found in _SECTION.finditer(doc(item))}
    body = bodies.get(name, "")
    return _entries(body) or ({"": flat(body)} if body.strip() else {})


def fields_of(cls: type) -> dict[str, str]:
    """Field → meaning: from the class's docstring (`name: …` or `name, other: …`) or the comment beside it."""
    return {**comments_in(cls), **_entries(doc(cls))}


def _entries(text: str) -> dict[str, str]:
    return {
        name.strip("*"): flat(found["text"]) for found in _ENTRY.finditer(text) for name in found["names"].split(", ")
    }


def comments_in(place: type | ModuleType) -> dict[str, str]:
    """Name → comment on the line where the name gets its value or type."""
    source = textwrap.dedent(inspect.getsource(place))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    beside = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.end_lineno in beside:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                found[target.id] = beside[node.end_lineno]
    return found


def groups_in(source: str, name: str) -> dict[str, list[str]]:
    """Comment → keys below it, of the dictionary that `name` is assigned."""
    groups: dict[str, list[str]] = {}
    body = source.split(f"{name} = {{", 1)[1].split("\n}", 1)[0]
    group = ""
    for line in body.splitlines():
        if found := re.match(r"\s*# (.+)", line):
            group = found[1]
        elif found := re.match(r'\s*"(\w+)":', line):
            groups.setdefault(group, []).append(found[1])
    return groups


def flat(text: str) -> str:
    """Wrapped lines as one."""
    return " ".join(text.split())
