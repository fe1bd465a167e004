"""Readers that leave, streams that are closed, encodings that lack letters."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import termios
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.workers import until
from tests.triples import values_of

# As a user's Python does it, whatever tests run under.
BUFFERED = {"PYTHONUNBUFFERED": ""}
ASCII = (
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
)


@pytest.fixture
def stored(store_study: Callable[..., None], tmp_path: Path) -> Path:
    """A folder with a study of a trial."""
    store_study(tmp_path / "fastrcaps.db", [values_of(0.9, 10.0, 1000.0)])
    return tmp_path


def shell(folder: Path, line: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """What a line of bash gives, in which ``$F`` is the command."""
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**os.environ, **BUFFERED, "F": "python -P -m fastrcaps_search", **variables},
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("command", ["trials --study tiny", "studies --json", "front --help"])
def test_a_reader_that_leaves_is_no_error_to_tell(stored: Path, command: str) -> None:
    done = shell(stored, f"$F {command} | true; exit ${{PIPESTATUS[0]}}")
    assert done.returncode in (0, 1)
    assert done.stderr == b""


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_as_good_as_null_devices(stored: Path, closed: str) -> None:
    assert shell(stored, f"$F front --study tiny --json {closed}").returncode == 0
    # Not written into what was opened in the place of the output.
    assert shell(stored, f"$F report --study tiny --out a.csv {closed}").returncode == 0
    assert (stored / "a.csv").read_text().startswith("trial,state")
    assert shell(stored, f"$F front --study nope {closed}").returncode == 2


@pytest.mark.parametrize(
    "command", ["trials --study tiny", "studies --json", "run --help", "--version"]
)
def test_an_output_that_is_full_is_one_line(stored: Path, command: str) -> None:
    done = shell(stored, f"$F {command} >/dev/full")
    assert done.returncode == 1
    assert done.stderr == (
        b"fastrcaps-search: the output must be accessible, got: No space left on device; fix its "
        b"permissions or name another\n"
    )


def test_a_slow_reader_of_a_stream_that_does_not_block_gets_all(stored: Path) -> None:
    whole = shell(stored, "$F studies --json").stdout
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    # Less than is to be written.
    assert fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096) == 4096 < len(whole)
    process = subprocess.Popen(
        ["python", "-P", "-m", "fastrcaps_search", "studies", "--json"],
        stdout=writing,
        env={**os.environ, **BUFFERED},
    )
    os.close(writing)
    until(lambda: array("i", fcntl.ioctl(reading, termios.FIONREAD, bytes(4)))[0] == 4096)
    with os.fdopen(reading, "rb") as file:
        assert file.read() == whole
    assert process.wait() == 0


@pytest.mark.parametrize("variables", ASCII)
def test_letters_that_an_encoding_lacks_have_plain_forms(
    stored: Path, variables: dict[str, str]
) -> None:
    shell(stored, "$F trials --study tiny --exclude 0 --why '\xfcber 3 \xb1 1'")
    told = shell(stored, "$F trials --study tiny", **variables)
    assert told.stderr == b""
    assert b"\\xfcber 3 +- 1" in told.stdout
    (row,) = json.loads(shell(stored, "$F trials --study tiny --json", **variables).stdout)
    assert row["reason"].endswith("\xfcber 3 \xb1 1")


def test_names_that_are_no_utf_8_are_printed_as_they_are(stored: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(stored) + b"/caf\xe9"))
    folder.mkdir()
    shutil.copy(stored / "fastrcaps.db", folder)
    told = shell(folder, "$F status --study tiny --files fastrcaps-files").stdout
    assert b"caf\xe9/fastrcaps-files/tiny-" in told
    code = (
        "from fastrcaps_search.cli import output, streams; from pathlib import Path; "
        "streams.open_streams(); output.print_json(str(Path.cwd()))"
    )
    assert json.loads(shell(folder, f'python -c "{code}"').stdout) == str(folder)
    # From outside, so that the page names the folder in its commands.
    line = "$F report --study tiny --storage $'caf\\xe9/fastrcaps.db' --out $'caf\\xe9/a.html'"
    written = shell(stored, line)
    assert (written.stdout, written.stderr) == (b"caf\xe9/a.html\n", b"")
    assert "caf\\udce9/fastrcaps.db" in (folder / "a.html").read_text(encoding="utf-8")


def test_a_user_whom_the_machine_does_not_know_has_no_home(stored: Path) -> None:
    line = "env -u HOME unshare --user --map-user=4711"
    if shell(stored, f"{line} true").returncode:
        pytest.skip("needs the right to make a user namespace")
    drawn = f"{line} $F report --study tiny --format png,csv"
    done = shell(stored, drawn, BROWSER_PATH="/bin/true")
    assert done.stdout == b"reports/tiny.csv\n"
    assert done.stderr.startswith(b"fastrcaps-search: the browser must draw the figure as png")
    code = (
        "from fastrcaps_search.cli.main import main; main(['front', '--study', 'tiny']); "
        "from fastrcaps_search.data.data_set import default_folder; print(default_folder())"
    )
    asked = shell(stored, f'{line} python -c "{code}"', XDG_CACHE_HOME="")
    assert asked.stdout.endswith(b"\n/.cache/fastrcaps-search\n")
