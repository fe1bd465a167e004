from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from fastrcaps_search.errors import UsageError
from fastrcaps_search.typed import path_of, unwrapped


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("a.db", "a.db"),
        (" a b.db\r\n", "a b.db"),
        ('"a.db"', "a.db"),
        ("'a.db'\r", "a.db"),
        ('" a.db "', "a.db"),
        ("o'brien.db", "o'brien.db"),
        ("häß–東京.db", "häß–東京.db"),
        ("not\udcffutf8.db", "not\udcffutf8.db"),
        ("dbname='a b'", "dbname='a b'"),
        ("", ""),
    ],
)
def test_blanks_quotes_and_the_end_of_the_line_are_not_meant(typed: str, meant: str) -> None:
    assert unwrapped(typed, "it") == meant


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("a\r\nb.db", r"'\r' (U+000D)"),
        ("\ufeffa.db", r"'\ufeff' (U+FEFF)"),
        ("a\u200b.db", r"'\u200b' (U+200B)"),
        ("a\xa0b.db", r"'\xa0' (U+00A0)"),
        ("\u201ca.db\u201d", r"'\u201c' (U+201C)"),
        ('"a.db', "'\"' (U+0022)"),
        ("a\0", r"'\x00' (U+0000)"),
    ],
)
def test_a_character_that_nobody_means_is_shown(typed: str, shown: str) -> None:
    with pytest.raises(UsageError) as error:
        unwrapped(typed, "storage")
    message = str(error.value)
    assert message == f"storage must be typed plainly, got the character {shown}; type it anew"


def test_the_home_folder_is_meant_by_its_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert path_of("~/a") == path_of(Path("~/a")) == path_of('"~/a"') == tmp_path / "a"
    assert path_of("./~/a") == Path("~/a")
    assert path_of("~root/a") == Path(pwd.getpwnam("root").pw_dir, "a")


@pytest.mark.parametrize(
    ("typed", "came"),
    [
        ("~no-such-user/a", r"got ~ without a home folder in '~no-such-user/a'; write"),
        ("$HOME/a", r"got \$ in '\$HOME/a'; write out what the variable stands for"),
        ("a/${X}", r"got \$ in 'a/\$\{X\}'"),
        ("s3://bucket/net", "got the URL 's3://bucket/net'; name a file or folder of this"),
        ("file:///net", "got the URL 'file:///net'"),
        (' "" ', "got nothing; name it or leave it out"),
    ],
)
def test_what_stands_for_something_else_is_refused(typed: str, came: str) -> None:
    with pytest.raises(UsageError, match=f"^--out must be typed plainly, {came}"):
        path_of(typed, "--out")


def test_a_path_of_a_program_is_taken_as_it_is() -> None:
    assert path_of(Path(" $HOME'")) == Path(" $HOME'")
