"""Wrong calls of the shell command that nothing may come of: one line says what to change, and nothing is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

TRAIN = "train.py:main"
DEEP = "[" * 200_000

ACCELERATORS = {
    "number that is no size": ("-a v6e-17", "'v6e-17' is not a named size", "use 'v6e-16' (4x4) or 'v6e-32' (4x8)"),
    "near miss": ("-a v6-16", "'v6-16' is not known: did you mean 'v6e-16'"),
    "no accelerator at all": ("-a banana", "'banana' is not known: give one such as 'v6e-16'"),
    "empty": ("--accelerator=", "'' is not known: give one such as"),
    "GPUs that no machine has": ("-a h100x3", "h100 comes as 'h100', 'h100x2', 'h100x4', 'h100x8'"),
    "spot twice": ("-a v6e-16:spot:spot", "asks for capacity 'spot:spot'", "give at most one of ':spot'"),
    "spot of this machine": ("-a cpu:spot", "'cpu' is this machine: leave it out"),
    "topology that is none": ("-a v5p-2x2x5", "'v5p-2x2x5' is no topology of v5p", "use 'v5p-2x2x2'"),
    "sides in another order": ("-a v5p-4x2x2", "sides in another order than Google's"),
    "no size": ("-a v6e", "'v6e' needs a number or a topology"),
    "machine type that cannot make it": ("-a v6e-16@ct6e-standard-8t", "cannot be made of machine type"),
    "second choice": ("-a v6e-16 -a v6e-3", "'v6e-3' is not a named size"),
}
PROGRAMS = {
    "missing file": ("missing.py:main", "Program missing.py cannot be read: No such file", "Check the path"),
    "missing script": ("missing.py", "Program missing.py cannot be read: No such file"),
    "syntax error": ("syntax.py:main", "syntax.py does not parse in line 1: invalid syntax"),
    "tabs and spaces": ("tabs.py:main", "tabs.py does not parse in line 3: inconsistent use of tabs"),
    "no UTF-8": ("latin.py:main", "latin.py does not parse", "utf-8"),
    "null bytes": ("null.py:main", "null.py does not parse", "null bytes"),
    "unknown codec": ("codec.py:main", "unknown encoding: no-such-codec"),
    "nested too deep": ("deep.py:main", "deep.py does not parse"),
    "a sibling that does not parse": ("sibling_broken.py:main", "syntax.py does not parse in line 1"),
    "asynchronous": ("later.py:main", "'main' is asynchronous", "asyncio.run(main(...))"),
    "a generator": ("values.py:main", "'main' is a generator", "return a list"),
    "a value": ("constant.py:main", "'main' in constant.py is a value, not a function"),
    "a local name": ("inside.py:main", "inside.py has no function 'main'. It has: other"),
    "relative import": ("relative.py:main", "has a relative import in line 1", "name the program as pkg.mod:function"),
    "relative import in a script": ("relative_script.py", "has a relative import in line 1"),
    "functions without a name": ("train.py", "only defines functions (main) and calls none", "such as train.py:main"),
    "no such function": ("train.py:missing", "train.py has no function 'missing'. It has: main"),
    "a folder as a file": ("directory.py:main", "directory.py cannot be read: Is a directory"),
    "a folder as a script": ("directory.py", "directory.py cannot be read: Is a directory"),
    "a folder as a command": ("empty", "'empty' is no program: name path.py:function"),
    "no such command": ("no-such-command", "'no-such-command' is no program"),
    "missing module": ("no_such.train:main", "Module 'no_such.train' cannot be found"),
    "missing module of a package": ("package.no_such:main", "Module 'package.no_such' cannot be found"),
    "no such function of a module": ("package.train:missing", "has no function 'missing'. It has: main"),
    "package that cannot be imported": ("broken_package.train:main", "RuntimeError('no licence found')"),
    "payload that is none": ("payload:abc:main", "names no payload"),
    "arguments of a function": (f"{TRAIN} -- one", "is a function: give it parameters (name=value)"),
    "parameters of a script": ("script.py -p steps=1", "is a script or command: give it arguments after '--'"),
    "parameters of a command": ("sh -p steps=1", "is a script or command"),
}
PARAMETERS = {
    "unknown": (f"{TRAIN} -p step=1", "main has no parameter 'step'. It has: steps, rate", "Did you mean 'steps'?"),
    "unknown of a module": ("package.train:main -p steps=1 -p stride=2", "main has no parameter 'stride'"),
    "of a function that takes none": ("nothing.py:main -p steps=1", "It has none: leave it out"),
    "missing": ("needs.py:main -p steps=1", "main needs 'seed', which was not given"),
    "all missing": ("needs.py:main", "main needs 'steps', 'seed', which were not given"),
    "by position only": ("positional.py:main -p steps=1", "takes 'steps' by position only"),
    "text for int": (f"{TRAIN} -p steps=ten", "'steps' of main is 'ten', text, and main takes int"),
    "fraction for int": (f"{TRAIN} -p steps=1.5", "'steps' of main is 1.5, a number with a point"),
    "yes for bool": (f"{TRAIN} -p fast=yes", "'fast' of main is 'yes', text, and main takes bool"),
    "text for float": (f"{TRAIN} -p rate=fast", "'rate' of main is 'fast', text, and main takes float"),
    "number for str": (f"{TRAIN} -p label=7", "main takes str: in a shell quote it twice, label='\"7\"'"),
    "null for int": (f"{TRAIN} -p steps=null", "'steps' of main is None, null, and main takes int"),
    "not a number": (f"{TRAIN} -p rate=NaN", "rate is nan, which JSON does not have"),
    "infinite": (f"{TRAIN} -p tag=[1,-Infinity]", "tag[1] is -inf, which JSON does not have"),
    "huge": (f"{TRAIN} -p tag={'x' * 300_000}", "KiB of JSON, at most 256 may be", "stage it with `data`"),
    "no value": (f"{TRAIN} -p steps", "--param 'steps' is not name=value"),
    "no name": (f"{TRAIN} -p =5", "--param '=5' is not name=value"),
    "no identifier": (f"{TRAIN} -p two-words=5", "is not name=value"),
    "given twice": (f"{TRAIN} -p steps=1 -p steps=2", "--param names 'steps' twice"),
}
SETTINGS = {
    "name in capitals": (f"{TRAIN} --name Digits", "Job name 'Digits' is not usable: start with a letter a-z"),
    "name that is too long": (f"{TRAIN} --name {'a' * 19}", "is not usable", "at most 17 of"),
    "name that is a path": (f"{TRAIN} --name ../up", "Job name '../up' is not usable"),
    "no time between checkpoints": (f"{TRAIN} --checkpoint-every 0", "'0' is no duration above 0"),
    "negative time": (f"{TRAIN} --checkpoint-every=-5", "'-5' is no duration above 0"),
    "time that is no number": (f"{TRAIN} --checkpoint-every nan", "'nan' is no duration above 0"),
    "time without end": (f"{TRAIN} --checkpoint-every inf", "'inf' is no duration above 0"),
    "time in words": (f"{TRAIN} --checkpoint-every soon", "'soon' is no duration above 0"),
    "no deadline": (f"{TRAIN} --deadline 0", "--deadline '0' is no duration above 0"),
    "no patience": (f"{TRAIN} --stall-timeout x", "--stall-timeout 'x' is no duration above 0"),
    "unknown drill": (f"{TRAIN} --drill explode@step=1", "'explode@step=1' is not known", "one of preempt, kill, fail"),
    "drill without a moment": (f"{TRAIN} --drill kill", "Drill 'kill' is not known: write KIND@step=N"),
    "drill of no host": (f"{TRAIN} --drill kill@step=1,host=4", "strikes no host (cpu has 1)"),
    "drill of no attempt": (f"{TRAIN} --drill kill@attempt=0", "never strikes: attempts and saves are counted from 1"),
}
MESHES = {
    "mesh that is none": ("--mesh data", "Mesh 'data' cannot be read: write"),
    "mesh of half an axis": ("--mesh data=", "Mesh 'data=' cannot be read"),
    "mesh nested too deep": (f"--mesh {DEEP}", "cannot be read"),
    "mesh of no devices": ("--mesh data=0", "has the size 0: use whole numbers from 1"),
    "mesh of two axes of one name": ("--mesh [[2,2],[data,data]]", "names an axis twice"),
    "mesh with two rests": ("--mesh data=-1,tp=-1", "2 axes of size -1: only one can take the rest"),
    "mesh without a name": ("--mesh [[2,2],[data]]", "has 2 sizes and 1 names"),
    "mesh for fewer devices": (
        "--mesh data=4 -a v6e-8",
        "Mesh data=4 is for 4 devices, v6e-8 has 8: it leaves devices idle. Use data=8",
    ),
    "mesh for more devices": ("--mesh data=4,tp=4 -a v6e-8", "it wants more than there are. Use data=2 × tp=4"),
    "mesh for another shape of the list": (
        "--mesh data=8 -a v6e-8 -a v6e-4",
        "Mesh data=8 is for 8 devices, v6e-4 has 4",
    ),
    "mesh for one slice of two": ("--mesh data=8 -a v6e-8 --slices 2", "2 slices of v6e-8 have 16"),
    "mesh that no slices can share": ("--mesh a=8,b=3 -a v6e-4 --slices 6", "none of its sizes divides by 6"),
}
PLACES = {
    "output of an unknown scheme": (f"{TRAIN} --output s3://bucket/jobs", "Output 's3://bucket/jobs' is not supported"),
    "output that is a file": (f"{TRAIN} --output a-file", "a-file is a file. Name another folder"),
    "output below a file": (f"{TRAIN} --output a-file/deep/er", "a-file is a file. Name another folder"),
    "output that is a device": (f"{TRAIN} --output /dev/null", "/dev/null is a file"),
    "missing data": (f"{TRAIN} --data x=missing.csv", "Data missing.csv is not there: check the path"),
    "empty folder of data": (f"{TRAIN} --data x=empty", "Data folder empty holds no files"),
    "loop of links": (f"{TRAIN} --data x=loop", "Data loop is a link that leads nowhere"),
    "folder that leads back": (f"{TRAIN} --data x=rounds", "rounds/again is neither a file nor a folder itself"),
    "folder that holds the output": (f"{TRAIN} --data x=.", "Data folder . holds the output", "give another output"),
    "data that is a device": (f"{TRAIN} --data x=/dev/null", "/dev/null is neither a file nor a folder"),
    "data without a path": (f"{TRAIN} --data x=", "empty path"),
    "data of one name": (f"{TRAIN} --data x=table.csv --data x=a-file", "--data names 'x' twice"),
}
CASES: dict[str, tuple[str, ...]] = {
    **{f"accelerator: {name}": (f"{TRAIN} {words}", *says) for name, (words, *says) in ACCELERATORS.items()},
    **{f"program: {name}": case for name, case in PROGRAMS.items()},
    **{f"parameter: {name}": case for name, case in PARAMETERS.items()},
    **{f"setting: {name}": case for name, case in SETTINGS.items()},
    **{f"mesh: {name}": (f"{TRAIN} {words}", *says) for name, (words, *says) in MESHES.items()},
    **{f"place: {name}": case for name, case in PLACES.items()},
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_call_is_one_line_and_leaves_nothing(shell: Any, place: Any, case: str) -> None:
    words, *says = CASES[case]
    before = place.seen()
    answer = shell("run", *words.split(" "))
    assert (answer.status, answer.out) == (2, ""), answer
    (line,) = answer.err.splitlines()
    assert line.startswith("prefect-tpu: ") and line.endswith((".", "?"))
    for words in says:
        assert line.count(words) == 1, line
    assert place.seen() == before


def test_a_script_gets_the_same_as_one_object(shell: Any, place: Any) -> None:
    answer = shell("run", TRAIN, "-a", "v6e-17", "--json")
    assert answer.status == 2 and answer.err == ""
    assert json.loads(answer.out)["error"].startswith("Accelerator 'v6e-17' is not a named size")


def test_a_value_nested_beyond_reading_is_text(shell: Any, place: Any) -> None:
    """What does not read as JSON is text; it must not be an error of Python's."""
    answer = shell("run", TRAIN, "-p", f"steps={DEEP}")
    assert answer.status == 2
    assert "'steps' of main is" in answer.err and "Traceback" not in answer.err


def test_there_are_more_than_sixty() -> None:
    assert len(CASES) >= 60
