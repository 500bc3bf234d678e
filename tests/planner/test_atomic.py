import os
import stat
import threading
from pathlib import Path

import pytest

from planner.atomic import write_atomic, writing
from planner.errors import InputError


def test_the_text_arrives_whole_and_alone(tmp_path):
    target = tmp_path / "plan.json"
    write_atomic(target, "old\n")
    write_atomic(target, "größer\n")
    assert target.read_bytes() == "größer\n".encode()
    assert os.listdir(tmp_path) == ["plan.json"]  # noqa: PTH208


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_mode_follows_the_umask(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_atomic(tmp_path / "plan.json", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "plan.json").stat().st_mode) == mode


def test_readers_never_see_a_part(tmp_path):
    target, whole = tmp_path / "plan.json", {"a" * 200_000, "b" * 200_000}
    write_atomic(target, "a" * 200_000)
    done, seen = threading.Event(), set()

    def read():
        while not done.is_set():
            seen.add(target.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(40):
        write_atomic(target, "ab"[i % 2] * 200_000)
    done.set()
    reader.join()
    assert seen <= whole


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    target = tmp_path / "plan.json"
    write_atomic(target, "old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(InputError, match="No space left") as caught:
            write_atomic(target, "new")
    assert str(target) in str(caught.value)
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["plan.json"]  # noqa: PTH208


@pytest.mark.parametrize("path", ["missing/plan.json", "file/plan.json", "folder"])
def test_a_place_that_cannot_be_written_is_named(tmp_path, path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").write_text("")
    with pytest.raises(InputError) as caught:
        write_atomic(tmp_path / path, "x")
    assert str(tmp_path / path) in str(caught.value)
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_atomic(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_what_is_no_regular_file_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(pipe, "text")
    assert os.read(reader, 9) == b"text"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["", "-"])
def test_no_name_is_refused(name):
    with pytest.raises(InputError, match="is no name for a file"):
        write_atomic(Path(name), "text")


def test_bytes_written_in_parts_take_their_name_when_all_are_there(tmp_path):
    target = tmp_path / "table.parquet"
    with writing(target) as file:
        file.write(b"\x00\xff")
        file.flush()
        assert not target.exists()
        file.write(b"end")
    assert target.read_bytes() == b"\x00\xffend"


def test_whatever_ends_the_writing_early_leaves_the_old_file(tmp_path):
    target = tmp_path / "table.parquet"
    write_atomic(target, b"old")

    def interrupted():
        with writing(target) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["table.parquet"]  # noqa: PTH208
