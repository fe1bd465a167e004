"""Entry point: parse, dispatch, and turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from fastrcaps_search.cli import commands, output, streams
from fastrcaps_search.definition.release import release
from fastrcaps_search.errors import DiskError, FastrcapsError, InterruptedRunError, UsageError
from fastrcaps_search.processes import handle_stops
from fastrcaps_search.store.location import locate, storage_file_warning, storage_of_environment
from fastrcaps_search.typed import unwrapped

PROGRAM = "fastrcaps-search"
IN_URL = re.compile(r"://[^\s@/]*:\S*@")
"""User and password in a URL."""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; `{self.prog} --help` shows how it is used")

    def _print_message(self, message: str, file: object = None) -> None:
        """Print help or version; argparse's own lets it pass that a disk has no room for it."""
        print(message, end="", flush=True)


def build_parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """The command line, with the flags of the commands that are named; imports nothing heavy."""
    parser = _Parser(
        prog=PROGRAM,
        description="Search how to train a capsule network: accuracy, time and size.",
        epilog=f"example: {PROGRAM} run --study mnist-mini --trials 12",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {release()}")
    subparsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=_Parser
    )
    for command in commands.COMMANDS:
        subparser = subparsers.add_parser(
            command.name,
            help=command.summary,
            description=command.summary,
            epilog=f"example: {PROGRAM} {command.name} {command.example}".rstrip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            # A flag that is cut short may come to mean another with the next release.
            allow_abbrev=False,
        )
        # Those of other commands are not needed, and may wait for plug-ins.
        for flag in command.flags if command.name in given else ():
            flag(subparser)
        subparser.add_argument(
            "--debug", action="store_true", help="show the trace of an error too"
        )
        subparser.set_defaults(function=command.function)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, 1, 2, 3 or 130."""
    given = sys.argv[1:] if argv is None else list(argv)
    streams.open_streams()
    try:
        Path.home()
    except RuntimeError:
        # Of a user whom the machine does not know. Libraries would end with a trace; containers
        # name the same.
        os.environ["HOME"] = "/"
    # Numpy's BLAS, of which nothing here has need, starts a thread for each core, and where there
    # may be no more of them it sends this process a Ctrl-C.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # What libraries of object storage log of an error, beside the one line that tells it.
    logging.lastResort = logging.NullHandler()
    try:
        handle_stops(signal.default_int_handler)
        arguments = build_parser(given).parse_args(given)
        # Of a file that counts, as no storage was named.
        if vars(arguments).get("storage", "") is None and (warning := storage_file_warning()):
            output.tell(f"warning: {warning}")
        code = int(arguments.function(arguments))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _report(InterruptedRunError("interrupted"), given)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nobody is left to tell.
        return 1
    except (OSError, MemoryError) as error:
        return _report(_refused(error), given)
    except Exception as error:
        return _report(error, given)
    finally:
        # Else Python would end with a trace of what it still holds.
        streams.drop_what_fails(sys.stdout)


def _refused(error: OSError | MemoryError) -> FastrcapsError:
    """What the system refused, as an error of ours: no fault of this program."""
    if isinstance(error, MemoryError):
        refusal = FastrcapsError(
            "memory must suffice, but there was no more; give it some (`ulimit -v`)"
        )
    else:
        what = error.filename or "a file or a connection"
        advice = "fix its permissions or name another"
        # Whatever is asked for has a name.
        if isinstance(error, FileNotFoundError) and not error.filename:
            what, advice = "the working directory", "enter one that exists"
        came = error.strerror or type(error).__name__
        refusal = DiskError(f"{what} must be accessible, got: {came}; {advice}")
    refusal.__cause__ = error
    return refusal


def _report(error: Exception, given: Sequence[str]) -> int:
    """Print the error as one line, after its trace where that is wanted; the exit code."""
    line = " ".join(str(error).split()) or type(error).__name__
    text = f"{PROGRAM}: {line}\n"
    if "--debug" in given or not isinstance(error, FastrcapsError):
        # That of a fault of this program is worth reading, but not with a password in it.
        text = "".join(traceback.format_exception(error)) + text
    sys.stderr.write(_without_passwords(text, given))
    return error.exit_code if isinstance(error, FastrcapsError) else FastrcapsError.exit_code


def _without_passwords(text: str, given: Sequence[str]) -> str:
    """The text without the passwords of the URLs that were given."""
    words = list(given)
    with suppress(UsageError, OSError):
        words.append(storage_of_environment() or "")
    for word in words:
        # Of no working directory either: an error is to be told whatever stands in the line.
        with suppress(UsageError, OSError):
            plain = unwrapped(word.removeprefix("--storage="), "storage")
            text = locate(plain).redacted(text)
    return IN_URL.sub("://***@", text)
