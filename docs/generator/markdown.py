"""How is a page of the reference written? Tables, signatures, sentences."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import code_words

LINE_LENGTH = 100


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; nothing where there are no rows."""
    lines = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *lines]) if lines else ""


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text) or " "


def code(value: object) -> str:
    return f"`{value}`"


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    text = text.strip()
    if not text:
        return ""
    first = text[0] if text.startswith("`") else text[0].upper()
    return f"{first}{text[1:]}{'' if text.endswith(('.', ':', '!', '?')) else '.'}"


def default(value: object) -> str:
    """A default as a caller would write it."""
    return "" if value is inspect.Parameter.empty else code(repr(value))


def signature(name: str, function: Callable[..., Any]) -> str:
    """How it is called, wrapped where it is long."""
    found = inspect.signature(function)
    shown = [_parameter(parameter) for parameter in _with_marks(found)]
    end = "" if found.return_annotation is inspect.Signature.empty else f" -> {found.return_annotation}"
    line = f"{name}({', '.join(shown)}){end}"
    return line if len(line) <= LINE_LENGTH else f"{name}(\n    " + ",\n    ".join(shown) + f",\n){end}"


def _with_marks(found: inspect.Signature) -> list[inspect.Parameter | str]:
    marked: list[inspect.Parameter | str] = []
    for parameter in found.parameters.values():
        kinds = [item.kind for item in marked if isinstance(item, inspect.Parameter)]
        starts = parameter.kind is parameter.KEYWORD_ONLY and not {parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL} & {
            *kinds
        }
        marked += ["*", parameter] if starts else [parameter]
    return [item for item in marked if isinstance(item, str) or item.name != "self"]


def _parameter(item: inspect.Parameter | str) -> str:
    if isinstance(item, str):
        return item
    stars = {item.VAR_POSITIONAL: "*", item.VAR_KEYWORD: "**"}.get(item.kind, "")
    annotation = "" if item.annotation is item.empty else f": {item.annotation}"
    equals = " = " if annotation else "="
    return f"{stars}{item.name}{annotation}{'' if item.default is item.empty else f'{equals}{item.default!r}'}"


def function(title: str, name: str, item: Callable[..., Any]) -> str:
    """A function's part of a page: how it is called, what it does, what each argument means."""
    meanings = code_words.section(item, "Args")
    parameters = inspect.signature(item).parameters
    known = {key: parameters[key].default for key in meanings if key in parameters}
    rows = [(code(key), default(known.get(key, inspect.Parameter.empty)), sentence(meanings[key])) for key in meanings]
    ends = [f"{word}: {_ends(code_words.section(item, word))}" for word in ("Returns", "Raises")]
    parts = [
        f"{title} `{name}`",
        f"```text\n{signature(name, item)}\n```",
        code_words.prose(item),
        table(("parameter", "default", "meaning"), rows),
        *(line for line in ends if not line.endswith(": ")),
    ]
    return "\n\n".join(part for part in parts if part)


def _ends(found: dict[str, str]) -> str:
    if not any(found):
        return found.get("", "")
    return " ".join(f"`{name}`: {sentence(text)}" for name, text in found.items())


def page(title: str, first: str, *parts: str) -> str:
    """A whole page, which says that it is generated."""
    made = "Generated from the code by `make docs`: change the docstring or comment there."
    return "\n\n".join([f"# {title}", f"{first} {made}", *(part for part in parts if part)]) + "\n"
