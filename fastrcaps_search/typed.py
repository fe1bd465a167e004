"""Paths and addresses as people type and paste them, in flags, variables and from Python."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from fastrcaps_search.errors import UsageError

Given = ParamSpec("Given")
Result = TypeVar("Result")
QUOTES = "\"'"
"""Kept around a value by what reads lines such as ``NAME="value"``: ``docker --env-file``."""
ODD_AT_ENDS = "\"'`\u201c\u201d\u2018\u2019\u00ab\u00bb"
UNSET = re.compile(r"\$(?=\w|\{)")
URL = re.compile(r"(?i)[a-z][a-z0-9+.-]+://")


def unwrapped(text: str | Path, what: str) -> str:
    """The text without the blanks and quotes around it, and the end of its line.

    Args:
        text: As it was typed, or a path of a program. It may hold a password and is not repeated.
        what: Its name in a message.

    Raises:
        UsageError: It holds a character that cannot be seen, or half a pair of quotes; or it is
            no text.
    """
    if isinstance(text, Path):
        return str(text)
    if not isinstance(text, str):
        raise _refused(what, f"a {type(text).__name__}", "pass a name or a path")
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in QUOTES:
        text = text[1:-1].strip()
    # A byte of a file's name that is no UTF-8 stands as half a character.
    odd = [sign for sign in text if not (sign.isprintable() or "\udc80" <= sign <= "\udcff")]
    ends = {text[:1], text[-1:]} - {""}
    odd += sorted(end for end in ends if end in ODD_AT_ENDS and text.count(end) % 2)
    if odd:
        raise _refused(what, f"the character {odd[0]!a} (U+{ord(odd[0]):04X})", "type it anew")
    return text


def plain_numbers(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Let a function take the numbers of numpy, pandas and torch as Python's own."""

    def plain(value: Any) -> Any:  # noqa: ANN401
        return value.item() if getattr(value, "shape", None) == () else value

    @functools.wraps(function)
    def called(*values: Given.args, **named: Given.kwargs) -> Result:
        others = {name: plain(value) for name, value in named.items()}
        return function(*map(plain, values), **others)

    return called


def path_of(given: str | Path, what: str = "the path") -> Path:
    """The path that was typed, with the home folder for ``~``; one of a program as it is.

    Raises:
        UsageError: It names no file or folder of this machine.
    """
    text = str(given)
    if isinstance(given, str):
        text = unwrapped(given, what)
        require_no_variable(text, what)
        if given and not text:
            raise _refused(what, "nothing", "name it or leave it out")
        if URL.match(text):
            raise _refused(what, f"the URL {text!r}", "name a file or folder of this machine")
    return Path(expanded(text, what))


def expanded(text: str, what: str) -> str:
    """The text of a path with the home folder for ``~``.

    Raises:
        UsageError: There is no such home folder.
    """
    # A path would forget the ./ before a name that begins so.
    path = os.path.expanduser(text)  # noqa: PTH111
    if path.startswith("~"):
        advice = f"write the folder out, or ./{text} for a name that begins so"
        raise _refused(what, f"~ without a home folder in {text!r}", advice)
    return path


def require_no_variable(text: str, what: str) -> None:
    """Refuse what would make a file or folder of the name of a variable.

    Raises:
        UsageError: It would.
    """
    if UNSET.search(text):
        raise _refused(what, f"$ in {text!r}", "write out what the variable stands for")


def _refused(what: str, came: str, advice: str) -> UsageError:
    return UsageError(f"{what} must be typed plainly, got {came}; {advice}")
