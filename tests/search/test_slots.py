"""Slots for cores, held by real processes that tell when they hold them: no test waits by time."""

from __future__ import annotations

import fcntl
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fastrcaps_search.errors import DiskError, InterruptedRunError, UsageError
from fastrcaps_search.search import slots
from fastrcaps_search.search.slots import Slots, runtime_folder
from fastrcaps_search.training.resources import core_ids

ASKED = """
import os, sys, threading
from pathlib import Path
from fastrcaps_search.search import slots

slots.WAIT_SECONDS = 0.01
name = sys.argv[1]
own = slots.Slots(owner=name, numbers=range(int(sys.argv[2])), folder=Path(sys.argv[3]))
# In one piece: the other processes write into the same pipe.
say = lambda text: os.write(1, f"{name}: {text}\\n".encode())
for line in sys.stdin:
    word, count = line.split()
    if word == "try":
        say(own.try_claim(int(count)))
    else:
        own.claim(int(count), stop=threading.Event(), waits=lambda who: say(f"waits for {who}"))
        say("claimed")
"""

FORKED = """
import os, signal, sys
from pathlib import Path
from fastrcaps_search.search.slots import Slots

own = Slots(owner="parent", numbers=[0], folder=Path(sys.argv[2]))
own.try_claim(1)
if os.fork() == 0:
    os.write(1, b"forked\\n")
    sys.stdin.read()
    os.closerange(3, 1024)
    print("closed", flush=True)
elif sys.argv[1] == "release":
    own.release()
    os.write(1, b"released\\n")
    os.wait()
else:
    os.kill(os.getpid(), signal.SIGKILL)
"""

EXECUTED = """
import os, signal, subprocess, sys
from pathlib import Path
from fastrcaps_search.search.slots import Slots

own = Slots(owner="parent", numbers=[0], folder=Path(sys.argv[1]))
own.try_claim(1)
subprocess.Popen(["cat"])
os.kill(os.getpid(), signal.SIGKILL)
"""

RANDOM = """
import os, random, sys, threading
from pathlib import Path
from fastrcaps_search.search import slots

slots.WAIT_SECONDS = 0.001
chance = random.Random(sys.argv[1])
own = slots.Slots(owner=sys.argv[1], numbers=range(3), folder=Path(sys.argv[2]))
book = os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND)
note = lambda change: os.write(book, f"{change:+d}\\n".encode())
ways = ("claim", "claim", "try", "release")
print("ready", flush=True)
sys.stdin.readline()
for _ in range(200):
    os.sched_yield()
    count, way = chance.choice((1, 2)), chance.choice(ways)
    before = len(own.held)
    if way == "try" and count >= before:
        own.try_claim(count)
        note(len(own.held) - before)
        continue
    # What is given back, also while waiting, is noted before.
    note(-before)
    if way == "release":
        own.release()
    else:
        own.claim(count, stop=threading.Event(), waits=lambda who: None)
        note(len(own.held))
note(-len(own.held))
"""


class Processes:
    """Processes that hold slots when told to, and all answer through one pipe."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._found: dict[str, subprocess.Popen[str]] = {}
        heard, self._said = os.pipe()
        stack.callback(os.close, self._said)
        self._heard = stack.enter_context(os.fdopen(heard))

    def start(self, *names: str, cores: int) -> None:
        for name in names:
            command = [sys.executable, "-c", ASKED, name, str(cores), str(self._folder)]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=self._said, text=True
            )
            self._stack.enter_context(process)
            self._stack.callback(process.kill)
            self._found[name] = process

    def pid(self, name: str) -> int:
        return self._found[name].pid

    def tell(self, name: str, words: str) -> None:
        pipe = self._found[name].stdin
        assert pipe is not None
        pipe.write(words + "\n")
        pipe.flush()

    def hear(self) -> str:
        return self._heard.readline().strip()

    def ask(self, name: str, words: str) -> str:
        self.tell(name, words)
        return self.hear()

    def kill(self, name: str) -> None:
        os.kill(self.pid(name), signal.SIGKILL)
        assert self._found[name].wait() == -signal.SIGKILL


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "slots"


@pytest.fixture
def others(folder: Path) -> Iterator[Processes]:
    with ExitStack() as stack:
        yield Processes(folder, stack)


@pytest.fixture
def own(folder: Path) -> Iterator[Slots]:
    with Slots(owner="worker-0 of study mine", numbers=[0, 1, 2], folder=folder) as held:
        yield held


@pytest.fixture
def other(folder: Path) -> Iterator[Slots]:
    """A second holder, in the same process: a lock belongs to whoever opened the file."""
    with Slots(owner="worker-1 of study other", numbers=[0, 1, 2], folder=folder) as held:
        yield held


def never(who: str) -> None:
    raise AssertionError(who)


def test_a_slot_is_held_by_one_process(others: Processes) -> None:
    others.start("a", "b", cores=2)
    assert others.ask("a", "try 1") == "a: True"
    assert others.ask("b", "try 1") == "b: True"
    assert others.ask("b", "try 2") == "b: False"
    assert others.ask("a", "try 0") == "a: True"
    assert others.ask("b", "try 2") == "b: True"
    assert others.ask("a", "try 1") == "a: False"


def test_several_are_had_together_or_not_at_all(own: Slots, other: Slots) -> None:
    assert other.try_claim(2)
    assert not own.try_claim(2)
    assert len(own.held) == 0
    assert other.try_claim(3)


def test_what_is_held_stays_where_more_cannot_be_had(own: Slots, other: Slots) -> None:
    assert own.try_claim(1)
    assert other.try_claim(1)
    assert not own.try_claim(3)
    assert (len(own.held), len(other.held)) == (1, 1)
    assert not other.try_claim(3)
    assert own.try_claim(2)


def test_fewer_are_given_back_at_once(own: Slots, other: Slots) -> None:
    assert own.try_claim(3)
    assert own.try_claim(1)
    assert len(own.held) == 1
    assert other.try_claim(2)


def test_leaving_gives_all_back(folder: Path, other: Slots) -> None:
    with Slots(owner="first", numbers=[0, 1, 2], folder=folder) as first:
        assert first.try_claim(3)
    assert len(first.held) == 0
    assert other.try_claim(3)


def test_processes_on_other_cores_are_not_waited_for(folder: Path, other: Slots) -> None:
    assert other.try_claim(3)
    with Slots(owner="apart", numbers=[7, 7, 8], folder=folder) as apart:
        assert apart.try_claim(2)
        assert apart.holders() == ""


@pytest.mark.parametrize("count", [-1, 4])
def test_more_threads_than_cores_are_refused(own: Slots, count: int) -> None:
    message = (
        "^threads must be at most 3, the number of cores that this process may use, "
        f"got {count}; use fewer threads$"
    )
    with pytest.raises(UsageError, match=message):
        own.try_claim(count)
    with pytest.raises(UsageError, match=message):
        own.claim(count, stop=threading.Event(), waits=never)


def test_the_cores_of_this_process_are_chosen_from(folder: Path) -> None:
    count = len(core_ids())
    with Slots(owner="me", folder=folder) as held:
        assert held.try_claim(count)
        with pytest.raises(UsageError, match=f"at most {count},"):
            held.try_claim(count + 1)


def test_a_killed_process_frees_its_slots_at_once(others: Processes, own: Slots) -> None:
    others.start("a", cores=3)
    assert others.ask("a", "try 3") == "a: True"
    assert not own.try_claim(1)
    others.kill("a")
    assert own.try_claim(3)
    assert own.holders() == ""


def test_a_waiting_process_says_who_holds_the_slots(others: Processes) -> None:
    others.start("a", "b", cores=2)
    assert others.ask("a", "try 2") == "a: True"
    assert others.ask("b", "claim 1") == f"b: waits for process {others.pid('a')} (a)"
    others.kill("a")
    assert others.hear() == "b: claimed"


def test_two_that_hold_one_and_want_two_get_them_in_turn(others: Processes, folder: Path) -> None:
    others.start("a", "b", cores=2)
    assert others.ask("a", "try 1") == "a: True"
    assert others.ask("b", "try 1") == "b: True"
    others.tell("a", "claim 2")
    others.tell("b", "claim 2")
    first = next(line[0] for line in iter(others.hear, "") if line.endswith("claimed"))
    second = {"a": "b", "b": "a"}[first]
    with Slots(owner="me", numbers=[0, 1], folder=folder) as own:
        assert not own.try_claim(1)
    others.tell(first, "try 0")
    lines = iter(others.hear, f"{second}: claimed")
    assert f"{first}: True" in list(lines)


def test_a_free_slot_is_not_waited_for(own: Slots, other: Slots) -> None:
    assert other.try_claim(1)
    own.claim(2, stop=threading.Event(), waits=never)
    assert len(own.held) == 2


def test_the_wait_holds_nothing_and_is_told_once(
    own: Slots, other: Slots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "WAIT_SECONDS", 0.0)
    told: list[tuple[str, int]] = []
    stop = threading.Event()
    tries = itertools.count()

    def try_claim(count: int) -> bool:
        if next(tries) == 5:
            other.release()
        return Slots.try_claim(own, count)

    assert own.try_claim(1)
    assert other.try_claim(1)
    monkeypatch.setattr(own, "try_claim", try_claim)
    own.claim(3, stop=stop, waits=lambda who: told.append((who, len(own.held))))
    assert len(own.held) == 3
    assert told == [(f"process {os.getpid()} (worker-1 of study other)", 0)]


def test_a_stop_ends_the_wait(own: Slots, other: Slots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "WAIT_SECONDS", 3600.0)
    assert other.try_claim(3)
    stop = threading.Event()
    with pytest.raises(InterruptedRunError, match=r"^stopped on request$"):
        own.claim(1, stop=stop, waits=lambda who: stop.set())
    assert len(own.held) == 0


def test_nothing_is_claimed_after_a_stop(own: Slots) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(InterruptedRunError):
        own.claim(1, stop=stop, waits=never)
    assert len(own.held) == 0


def test_each_other_holder_is_named_once(folder: Path, own: Slots, other: Slots) -> None:
    with Slots(owner="worker-2 of study third", numbers=[0, 1, 2, 3], folder=folder) as third:
        assert third.try_claim(1)
        assert other.try_claim(2)
        me = f"process {os.getpid()}"
        assert own.holders() == (f"{me} (worker-2 of study third), {me} (worker-1 of study other)")
        assert other.holders() == f"{me} (worker-2 of study third)"
    assert own.holders() == f"{me} (worker-1 of study other)"


@pytest.mark.parametrize(
    ("text", "shown"), [(b"", "an unknown process"), (b"\xff\xfe", "\ufffd\ufffd")]
)
def test_a_holder_that_has_written_nothing_readable(
    folder: Path, own: Slots, other: Slots, text: bytes, shown: str
) -> None:
    assert other.try_claim(1)
    (folder / "core-0").write_bytes(text)
    assert own.holders() == shown


def test_an_owner_of_any_characters_is_written(folder: Path, own: Slots) -> None:
    with Slots(owner="\udc80", numbers=[0], folder=folder) as odd:
        assert odd.try_claim(1)
        assert own.holders() == f"process {os.getpid()} (?)"


def test_holders_of_a_folder_that_cannot_be_read(folder: Path, own: Slots) -> None:
    folder.chmod(0o755)
    assert own.holders() == ""


@pytest.mark.parametrize("taken", [False, True])
def test_a_slot_deleted_before_it_is_locked_is_made_anew(
    folder: Path,
    own: Slots,
    other: Slots,
    monkeypatch: pytest.MonkeyPatch,
    taken: bool,
) -> None:
    flock = fcntl.flock
    core = folder / "core-0"
    core.touch()

    def delete_first(descriptor: int, operation: int) -> None:
        if os.path.samestat(os.fstat(descriptor), core.stat()):
            monkeypatch.setattr(fcntl, "flock", flock)
            core.unlink()
            assert not taken or other.try_claim(1)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", delete_first)
    assert own.try_claim(1)
    assert not other.try_claim(3)
    assert own.try_claim(2)
    assert own.try_claim(3) is not taken


def test_a_forked_child_keeps_no_slots_of_a_dead_process(folder: Path, own: Slots) -> None:
    with running(FORKED, "die", str(folder)) as process:
        assert process.wait() == -signal.SIGKILL
        assert process.stdout is not None
        assert process.stdout.readline() == "forked\n"
        assert own.try_claim(3)
        assert process.communicate()[0] == "closed\n"


def test_a_forked_child_does_not_keep_what_is_given_back(folder: Path, own: Slots) -> None:
    with running(FORKED, "release", str(folder)) as process:
        assert process.stdout is not None
        assert {process.stdout.readline() for _ in range(2)} == {"forked\n", "released\n"}
        assert own.try_claim(3)
        assert process.communicate()[0] == "closed\n"


def test_a_program_that_a_process_starts_keeps_no_slots(folder: Path, own: Slots) -> None:
    with running(EXECUTED, str(folder)) as process:
        assert process.wait() == -signal.SIGKILL
        assert own.try_claim(3)
        assert process.communicate("still here\n")[0] == "still here\n"


def running(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_never_more_are_held_than_there_are(folder: Path, tmp_path: Path) -> None:
    book = tmp_path / "book"
    book.touch()
    with ExitStack() as stack:
        processes = [
            stack.enter_context(running(RANDOM, str(seed), str(folder), str(book)))
            for seed in range(6)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        assert [process.wait() for process in processes] == [0] * 6
    sums = list(itertools.accumulate(int(line) for line in book.read_text().splitlines()))
    assert max(sums) <= 3
    assert min(sums) == sums[-1] == 0
    assert len(sums) > 6 * 200


def test_the_folder_is_the_same_for_all_shells_of_a_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TMPDIR", "XDG_RUNTIME_DIR", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("FASTRCAPS_RUNTIME_DIR", raising=False)
    assert runtime_folder() == Path(f"/tmp/fastrcaps-search-{os.getuid()}")
    monkeypatch.setenv("FASTRCAPS_RUNTIME_DIR", "")
    assert runtime_folder() == Path(f"/tmp/fastrcaps-search-{os.getuid()}")


def test_the_folder_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTRCAPS_RUNTIME_DIR", str(tmp_path / "a" / "b"))
    with Slots(owner="me", numbers=[5]) as held:
        assert held.try_claim(1)
    found = tmp_path / "a" / "b"
    assert found.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in found.iterdir()) == ["core-5"]


def make_link(folder: Path) -> None:
    (folder.parent / "real").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "real")


@pytest.mark.parametrize(
    ("make", "came"),
    [
        (make_link, "a symbolic link"),
        (lambda folder: folder.symlink_to("nowhere"), "a symbolic link"),
        (Path.touch, "a file"),
        (lambda folder: folder.mkdir(mode=0o755), "mode 0755"),
        (lambda folder: folder.mkdir(mode=0o500), "mode 0500"),
    ],
)
def test_a_folder_that_others_may_reach_is_refused(
    folder: Path, make: Callable[[Path], None], came: str
) -> None:
    make(folder)
    message = (
        f"^{folder} must be an absolute path of a folder of this user's with mode 0700, got "
        f"{came}; fix or remove it, or name another with FASTRCAPS_RUNTIME_DIR$"
    )
    with pytest.raises(UsageError, match=message):
        Slots(owner="me", numbers=[0], folder=folder)


def test_a_relative_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"^slots must be .* got a relative path"):
        Slots(owner="me", numbers=[0], folder=Path("slots"))
    assert not list(tmp_path.iterdir())


def test_a_folder_of_another_user_is_refused(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    try:
        os.chown(folder, os.getuid() + 4321, -1)
    except PermissionError:
        pytest.skip("only root can give a folder to another user")
    with pytest.raises(UsageError, match=f" got a folder of user {os.getuid() + 4321}; "):
        Slots(owner="me", numbers=[0], folder=folder)


def test_a_folder_that_changes_hands_is_refused_too(folder: Path, own: Slots) -> None:
    folder.chmod(0o777)
    with pytest.raises(UsageError, match=" got mode 0777; "):
        own.try_claim(1)
    assert len(own.held) == 0


def test_a_folder_that_is_deleted_is_made_anew(folder: Path, own: Slots) -> None:
    folder.rmdir()
    assert own.try_claim(1)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "slots"
    message = (
        f"^{folder} must be a folder that can be made, got: Not a directory; name another with "
        "FASTRCAPS_RUNTIME_DIR$"
    )
    with pytest.raises(DiskError, match=message):
        Slots(owner="me", numbers=[0], folder=folder)


def test_slots_that_cannot_be_written(folder: Path, own: Slots) -> None:
    (folder / "core-1").mkdir()
    message = (
        f"^{folder}/core-1, which belongs to .+, must be a file that can be written and locked, "
        "got: Is a directory; fix it, or name another folder with FASTRCAPS_RUNTIME_DIR$"
    )
    with pytest.raises(DiskError, match=message):
        own.try_claim(2)
    assert len(own.held) == 0
    assert own.holders() == ""


def test_a_slot_that_cannot_be_made_is_nobodys(folder: Path, own: Slots) -> None:
    (folder / "core-1").symlink_to(folder / "missing" / "file")
    with pytest.raises(DiskError, match=f"^{folder}/core-1 must be a file that can be written"):
        own.try_claim(2)
