"""The gate is printed for a site, and what a set-up lacks is said with what to write."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from planner.sources.slurm.gate import SETTINGS, conf_lines, gate_lua, missing

CONFIG = dict(
    line.partition("=")[::2]
    for line in (Path(__file__).parent / "samples" / "config.txt").read_text().replace(" ", "").splitlines()
)


@pytest.fixture
def config(tmp_path: Path) -> dict[str, str]:
    """A set-up that lacks nothing."""
    (tmp_path / "job_submit.lua").write_text(gate_lua([0]))
    return {**CONFIG, "SLURM_CONF": str(tmp_path / "slurm.conf")}


def test_a_set_up_that_lacks_nothing_is_told_so(config: dict[str, str]) -> None:
    assert missing(config, gate_lua([0])) == ([], [])


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.key)
def test_every_setting_that_is_missing_is_told_with_its_line(config: dict[str, str], setting: object) -> None:
    faults, hints = missing({k: v for k, v in config.items() if k != setting.key}, gate_lua([0]))  # type: ignore[attr-defined]
    told = faults if setting.must else hints  # type: ignore[attr-defined]
    assert [line for line in told if setting.line in line]  # type: ignore[attr-defined]
    assert setting.line in conf_lines()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("key", "value"), [("PreemptMode", "REQUEUE"), ("JobRequeue", "0"), ("ReturnToService", "2")]
)
def test_a_setting_that_works_against_rounds_is_told(config: dict[str, str], key: str, value: str) -> None:
    (fault,) = missing({**config, key: value}, gate_lua([0]))[0]
    assert f"{key} is {value}" in fault


def test_another_gate_or_none_is_told(config: dict[str, str], tmp_path: Path) -> None:
    assert "is not the gate of this site" in missing(config, gate_lua([0], ["main"]))[0][0]
    assert "was made for user ids 0, and this checks for 0, 64030" in missing(config, gate_lua([64030]))[0][0]
    (tmp_path / "job_submit.lua").unlink()
    assert "cannot be read" in missing(config, gate_lua([0]))[0][0]


def test_names_of_partitions_can_end_no_string() -> None:
    assert '["maindoosexecutex"] = true' in gate_lua([7], ['main"] do os.execute("x") --']).replace(
        "--", ""
    ).replace(".", "")


LUA = shutil.which("lua5.1") or shutil.which("lua5.3") or shutil.which("lua5.4") or shutil.which("lua")

TRIAL = """
slurm = {{SUCCESS = 0, ERROR = -1, log_user = function() end}}
dofile("{gate}")
local function submit(job, uid) local rc = slurm_job_submit(job, {{}}, uid); print(rc, job.priority) end
local function modify(job, uid) print(slurm_job_modify(job, {{}}, {{}}, uid)) end
submit({{partition = "main", priority = 9}}, 1000)
submit({{partition = "other,main"}}, 1000)
submit({{partition = "other", priority = 9}}, 1000)
submit({{partition = "main", reservation = "maint", priority = 9}}, 1000)
submit({{req_nodes = "node001"}}, 1000)
submit({{exc_nodes = "node001"}}, 1000)
submit({{req_nodes = "node001"}}, 0)
modify({{priority = 4294967294}}, 1000)
modify({{priority = 0}}, 1000)
modify({{priority = 5}}, 1000)
modify({{priority = 4294967295}}, 1000)
modify({{comment = "x"}}, 1000)
modify({{req_nodes = "x"}}, 1000)
modify({{req_nodes = "x", priority = 5, comment = "x"}}, 64030)
"""


@pytest.mark.skipif(LUA is None, reason="no Lua is installed")
def test_the_gate_holds_what_is_planned_and_lets_no_owner_open_it(tmp_path: Path) -> None:
    assert LUA is not None
    (tmp_path / "gate.lua").write_text(gate_lua([64030], ["main"]))
    (tmp_path / "trial.lua").write_text(TRIAL.format(gate=tmp_path / "gate.lua"))
    done = subprocess.run([LUA, tmp_path / "trial.lua"], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == [
        "0\t0", "0\t0", "0\t9", "0\t9", "-1\tnil", "-1\tnil", "0\t0", "0", "0", "-1", "-1", "-1", "-1", "0",
    ]  # fmt: skip
