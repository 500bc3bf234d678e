"""A stopped simulation leaves a checkpoint, and goes on from it as if nothing had been."""

from __future__ import annotations

import errno
import itertools
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.simulation import session
from planner.simulation.engine import Options, Outages
from planner.simulation.session import CHECKPOINT, Case, digest_of, forget, simulate
from tests.planner.simulation.small import HOUR, happened, site, trace

WORK = trace(*({"submitted_s": 600 * k, "allocation": "ab"[k % 2], "runtime_s": 2 * HOUR} for k in range(20)))


def case(digest: str = "1", policy: str = "budget-greedy") -> Case:
    return Case(site(2), WORK, Options(policy), Outages(), digest)


def test_a_checkpoint_goes_when_the_results_are_written_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(session, "CHECKPOINT_EVERY_S", 0.0)
    _, over = simulate(case(), tmp_path)
    assert over
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]
    forget(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_run_goes_on_to_the_same_end(tmp_path: Path):
    rounds = itertools.count()
    _, over = simulate(case(), tmp_path, go_on=lambda _: next(rounds) < 30)
    assert not over
    resumed, over = simulate(case(), tmp_path, resume=True)
    whole, _ = simulate(case(), None)
    assert over
    assert happened(resumed.history()) == happened(whole.history())


def test_without_resume_a_checkpoint_is_not_read(tmp_path: Path):
    (tmp_path / CHECKPOINT).write_bytes(b"2\nnonsense")
    assert simulate(case(), tmp_path)[1]


def test_a_checkpoint_of_other_inputs_is_refused(tmp_path: Path):
    simulate(case(digest="1"), tmp_path, go_on=lambda _: False)
    with pytest.raises(InputError, match="other inputs"):
        simulate(case(digest="2"), tmp_path, resume=True)


@pytest.mark.parametrize("kept", [b"", b"1\n", b"1\nnonsense", b"1\n\x80\x05N."])
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, kept: bytes):
    (tmp_path / CHECKPOINT).write_bytes(kept)
    with pytest.raises(InputError, match="checkpoint"):
        simulate(case(), tmp_path, resume=True)


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_where_the_checkpoint_should_be_is_refused_before_anything_runs(tmp_path: Path, resume):
    (tmp_path / CHECKPOINT).mkdir()
    with pytest.raises(InputError, match=r"checkpoint\.pickle: is no file, move it away"):
        simulate(case(), tmp_path, resume=resume, go_on=pytest.fail)


def test_a_checkpoint_that_may_not_be_read_is_the_users_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def forbidden(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    simulate(case(), tmp_path, go_on=lambda _: False)
    monkeypatch.setattr(Path, "read_bytes", forbidden)
    with pytest.raises(InputError, match=r"checkpoint\.pickle: cannot be read"):
        simulate(case(), tmp_path, resume=True)


def test_long_runs_are_checkpointed_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session, "CHECKPOINT_EVERY_S", 0.0)
    seen = []
    simulate(case(), tmp_path, go_on=lambda _: seen.append((tmp_path / CHECKPOINT).exists()) or True)
    assert all(seen)


def test_the_digest_depends_on_every_input(tmp_path: Path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("x")
    other.write_text("y")
    digests = [
        digest_of([one]),
        digest_of([other]),
        digest_of([one, other]),
        digest_of([other, one]),
        digest_of([one], Options("fifo")),
        digest_of([one], Options("fifo", seed=1)),
    ]
    assert len(set(digests)) == len(digests)
