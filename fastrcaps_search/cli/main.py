"""Entry point: parse, dispatch, and turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from fastrcaps_search.cli import commands
from fastrcaps_search.errors import FastrcapsError, UsageError

PROGRAM = "fastrcaps-search"


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        # An argument that landed in the wrong place may be a URL with a password.
        message = re.sub(r"://[^\s@]*@", "://***@", message)
        raise UsageError(f"{message}; `{self.prog} --help` shows how it is used")


def build_parser() -> argparse.ArgumentParser:
    """The whole command line; imports nothing heavy."""
    parser = _Parser(
        prog=PROGRAM,
        description="Search how to train a capsule network: accuracy, time and size.",
        epilog=f"example: {PROGRAM} run --study mnist-mini --trials 12",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=commands.version_line())
    subparsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=_Parser
    )
    for command in commands.COMMANDS:
        subparser = subparsers.add_parser(
            command.name,
            help=command.summary,
            description=command.summary,
            epilog=f"example: {PROGRAM} {command.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(subparser)
        subparser.add_argument(
            "--debug", action="store_true", help="show the trace of an error too"
        )
        subparser.set_defaults(function=command.function)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, 1, 2, 3 or 130."""
    given = sys.argv[1:] if argv is None else list(argv)
    try:
        arguments = build_parser().parse_args(given)
        return int(arguments.function(arguments))
    except FastrcapsError as error:
        return _report(error, error.exit_code, debug="--debug" in given)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _report(error: FastrcapsError, code: int, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    line = " ".join(str(error).split())
    print(f"{PROGRAM}: {line}", file=sys.stderr)
    return code
