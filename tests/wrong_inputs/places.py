"""The programs and data that wrong calls name."""

from __future__ import annotations

from pathlib import Path

SOURCES: dict[str, str | bytes] = {
    "train.py": "def main(steps: int = 1, rate: float = 0.1, label: str = '', fast: bool = False, *, tag=None): pass\n",
    "needs.py": "def main(steps, seed): pass\n",
    "positional.py": "def main(steps, /): pass\n",
    "nothing.py": "def main(): pass\n",
    "syntax.py": "def main(:\n",
    "tabs.py": "def main():\n\tif 1:\n        pass\n",
    "latin.py": "place = 'caf\xe9'\ndef main(): pass\n".encode("latin-1"),
    "null.py": b"def main(): pass\0\n",
    "codec.py": "# -*- coding: no-such-codec -*-\ndef main(): pass\n",
    "later.py": "async def main(): pass\n",
    "values.py": "def main():\n    yield 1\n",
    "constant.py": "main = 3\n",
    "inside.py": "def other():\n    main = 1\n    return main\n",
    "relative.py": "from . import train\ndef main(): pass\n",
    "relative_script.py": "from . import train\ntrain.main()\n",
    "script.py": "print('hello')\n",
    "deep.py": "x = " + "(" * 2000 + ")" * 2000 + "\ndef main(): pass\n",
    "sibling_broken.py": "import syntax\ndef main(): pass\n",
    "package/__init__.py": "",
    "package/train.py": "def main(steps: int): pass\n",
    "broken_package/__init__.py": "raise RuntimeError('no licence found')\n",
    "broken_package/train.py": "def main(): pass\n",
    "table.csv": "1,2\n",
    "pictures/one.txt": "one\n",
    "a-file": "in the way\n",
}
PROGRAMS = frozenset(name.split("/")[0].removesuffix(".py") for name in SOURCES)


def lay_out(folder: Path) -> None:
    """Write them, and what no text can be: links that lead nowhere, folders with odd names, a pipe."""
    for name, content in SOURCES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "directory.py").mkdir()
    (folder / "empty").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "rounds").mkdir()
    (folder / "rounds" / "again").symlink_to("..", target_is_directory=True)
