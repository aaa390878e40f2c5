"""Which pages are tried where, and what it is to follow one."""

from __future__ import annotations

from pathlib import Path

from page_blocks import blocks
from reader import PAGES, Reader, page_id

EXECUTED = [page for page in PAGES if any(block.is_executed for block in blocks(page))]
NEED_CLUSTER = [page for page in EXECUTED if any(block.needs_cluster for block in blocks(page))]  # tests/cluster does
NEED_GOOGLE = [page for page in EXECUTED if any(block.needs_google for block in blocks(page))]
NEED_SERVER = [page for page in EXECUTED if any(block.needs_server for block in blocks(page))]
NEED_FRAMEWORKS = [page for page in EXECUTED if any(block.needs_frameworks for block in blocks(page))]
NEED_COMPILER = [page for page in EXECUTED if any(block.needs_compiler for block in blocks(page))]
ELSEWHERE = NEED_SERVER + NEED_CLUSTER + NEED_GOOGLE + NEED_FRAMEWORKS + NEED_COMPILER


def follow(page: Path, reader: Reader) -> None:
    """Do what each block says, one after the other; nothing of it lives afterwards."""
    for block in blocks(page):
        went_wrong = reader.follow(block)
        assert not went_wrong, f"{page_id(page)}:{block.line} {went_wrong}"
    reader.close()
    assert not reader.left(), f"{page_id(page)} leaves processes: {[' '.join(p.cmdline()) for p in reader.left()]}"
