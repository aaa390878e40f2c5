"""Which blocks of code does a page have, and what does each need to run?

The language after the fence says how a block is tried: `python`, `sh`, and `console`
(commands after `$ `, each followed by what it prints). Other languages are only read.
Hidden comments on the lines before the fence say more:

    <!-- file: train.py -->     the block is this file of the reader's folder
    <!-- given: server -->      what the block starts is there already, for it and for the rest of the page
    <!-- run: server -->        the block needs what is named, `server`, `cluster`, `google`, `frameworks` or
                                `compiler`; the rest of the page has it too
    <!-- background: worker --> the shell block goes on until the end of the page; the page goes on at once, or after
                                a console block's command has printed what is shown
    <!-- session: notebook -->  this and the page's further Python blocks are cells of a notebook
    <!-- status: 1 -->          a shell block, or the last command of a console block, ends with this status
    <!-- raises: JobFailed -->  the Python block ends with this exception
    <!-- skip: reason -->       cannot run here; `tests/docs/test_blocks.py` lists all of these
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

EXECUTED = frozenset({"python", "sh", "console"})
READ = frozenset({"", "text", "yaml", "json", "mermaid"})
WORDS = frozenset({"file", "given", "run", "background", "session", "status", "raises", "skip"})
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)$")
_WORD = re.compile(r"^ *<!-- (?P<word>[a-z]+): (?P<value>.+) -->$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of a page; `line` is that of its fence."""

    line: int
    language: str
    text: str
    words: dict[str, str] = field(default_factory=dict)

    @property
    def is_executed(self) -> bool:
        return self.language in EXECUTED and not {"skip", "file", "given"} & self.words.keys()

    @property
    def needs_server(self) -> bool:
        return "server" in (self.words.get("given"), self.words.get("run"))

    @property
    def needs_cluster(self) -> bool:
        return self.words.get("run") == "cluster"

    @property
    def needs_frameworks(self) -> bool:
        """PyTorch and its like, in their own environment."""
        return self.words.get("run") == "frameworks"

    @property
    def needs_compiler(self) -> bool:
        """Google's, in an environment of its own."""
        return self.words.get("run") == "compiler"

    @property
    def needs_google(self) -> bool:
        """The fakes of Cloud Quotas and Cloud Monitoring."""
        return self.words.get("run") == "google"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a console block, and what the page says that it prints."""

    text: str
    output: str


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in their order. Raises `ValueError` for a fence that is not closed."""
    lines = page.read_text().splitlines()
    return list(_blocks(lines))


def _blocks(lines: list[str]) -> Iterator[Block]:
    number = 0
    while number < len(lines):
        opened = _FENCE.match(lines[number])
        if opened is None:
            number += 1
            continue
        indent = opened["indent"]
        end = lines.index(f"{indent}```", number + 1)
        text = "".join(f"{line.removeprefix(indent)}\n" for line in lines[number + 1 : end])
        yield Block(line=number + 1, language=opened["language"], text=text, words=_words_above(lines, number))
        number = end + 1


def _words_above(lines: list[str], fence: int) -> dict[str, str]:
    words = {}
    while fence > 0 and (found := _WORD.match(lines[fence - 1])):
        words[found["word"]] = found["value"]
        fence -= 1
    return words


def commands(text: str) -> list[Command]:
    """The commands of a console block; one that ends with a backslash goes on in the next line."""
    found: list[list[str]] = []
    goes_on = False
    for line in text.splitlines():
        if goes_on:
            found[-1][0] += f"\n{line}"
        elif line.startswith("$ "):
            found.append([line[2:], ""])
        else:
            found[-1][1] += f"{line}\n"
            continue
        goes_on = line.endswith("\\")
    return [Command(text=command, output=output) for command, output in found]


_OF_A_BUSY_MACHINE = re.compile(r"\b(?:EventsWorker|APILogWorker) - Still processing items")


def is_shown(expected: str, printed: str) -> bool:
    """Whether a command printed what its page shows.

    `…` stands for anything within a line, and alone in a line for any number of lines. Widths of
    columns do not count, nor what Prefect says on a busy machine alone.
    """
    wanted = [_pattern(line) for line in _plain(expected)]
    given = "".join(f"{line}\n" for line in _plain(printed))
    return re.fullmatch("".join(wanted), given) is not None


def _pattern(line: str) -> str:
    if line == "…":
        return r"(?:.*\n)*?"
    return ".*?".join(re.escape(part) for part in line.split("…")) + r"\n"


def _plain(text: str) -> list[str]:
    lines = (re.sub(r"[ ─━]+", " ", line).strip() for line in text.splitlines())
    return [line for line in lines if line and not _OF_A_BUSY_MACHINE.search(line)]
