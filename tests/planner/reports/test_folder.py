"""A folder that changes all at once, and never takes away what it has not made."""

from __future__ import annotations

import stat

import pytest

from planner.errors import InputError
from planner.reports.folder import replace_folder


def contents(path):
    return {p.name: p.read_text() for p in path.iterdir()}


def test_the_folder_holds_the_files_and_then_the_new_ones_alone(tmp_path):
    out = tmp_path / "deep" / "www"
    replace_folder(out, {"a.html": "1", "b.html": "2"})
    assert contents(out) == {"a.html": "1", "b.html": "2"}
    replace_folder(out, {"a.html": "3"})
    assert contents(out) == {"a.html": "3"}


def test_whoever_reads_the_folder_before_can_go_on_once_and_older_ones_go(tmp_path):
    out = tmp_path / "www"
    replace_folder(out, {"a": "1"})
    reader = out.resolve()
    replace_folder(out, {"a": "2"})
    assert contents(reader) == {"a": "1"}
    replace_folder(out, {"a": "3"})
    assert not reader.exists()
    assert len(list(tmp_path.iterdir())) == 3  # the link, the folder in use, the one before


@pytest.mark.parametrize("make", ["folder", "file", "link"])
def test_what_somebody_else_made_is_refused_and_left(tmp_path, make):
    out = tmp_path / "www"
    if make == "folder":
        out.mkdir()
        (out / "mine").write_text("x")
    elif make == "file":
        out.write_text("x")
    else:
        out.symlink_to(tmp_path)
    with pytest.raises(InputError, match="was not made by this command"):
        replace_folder(out, {"a": "1"})
    assert len(list(tmp_path.iterdir())) == 1


def test_a_failure_leaves_the_old_folder_and_no_trace(tmp_path):
    out = tmp_path / "www"
    replace_folder(out, {"a": "1"})
    with pytest.raises(InputError, match="cannot be written"):
        replace_folder(out, {"a": "2", "no/such/folder": "x"})
    assert contents(out) == {"a": "1"}
    assert len(list(tmp_path.iterdir())) == 2


def test_others_can_read_it(tmp_path):
    replace_folder(tmp_path / "www", {"a": "1"})
    mode = (tmp_path / "www").resolve().stat().st_mode
    assert mode & stat.S_IROTH
    assert mode & stat.S_IXOTH
