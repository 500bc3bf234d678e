"""A real Slurm cluster of fake GPU nodes on this machine, brought up by the testbed script."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPT = "GANGPLAN_TESTBED"
"""Variable that names the testbed script; without it nothing here runs."""


@dataclass(frozen=True)
class Bed:
    """A cluster that is up.

    Attributes
    ----------
    home : Path
        The testbed's own folder.
    port : int
        The first of its ports: two clusters on one machine differ in it.
    """

    script: Path
    home: Path
    nodes: int
    accounts: bool
    port: int = 16800

    @property
    def conf(self) -> Path:
        """The cluster's slurm.conf."""
        return self.home / "etc" / "slurm.conf"

    @property
    def env(self) -> dict[str, str]:
        """The environment of everything that speaks to this cluster."""
        own = {"TB": str(self.home), "TB_PORT": str(self.port), "TB_KILLWAIT": "2", "TB_GPUS": "8"}
        return {**os.environ, **own, "SLURM_CONF": str(self.conf)}

    def up(self) -> None:
        """Bring it up, with three accounts if it keeps any."""
        self.call("bash", self.script, "up", self.nodes, *(["db"] if self.accounts else []))
        if self.accounts:
            self.call("sacctmgr", "-i", "-Q", "add", "account", "robotics", "parent=lab", check=False)
            self.call("sacctmgr", "-i", "-Q", "add", "user", "root", "account=robotics", check=False)

    def down(self) -> None:
        """Take it down and remove its state."""
        self.call("bash", self.script, "wipe", check=False)

    def call(self, *args: object, check: bool = True) -> str:
        """Run a command against the cluster; return what it printed."""
        done = subprocess.run(
            [str(a) for a in args], env=self.env, capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, (args, done.stdout, done.stderr)
        return done.stdout

    def close_gate(self, lua: str) -> None:
        """Install the gate that gangplan prints."""
        (self.home / "etc" / "job_submit.lua").write_text(lua)
        self.call("scontrol", "reconfigure")
        wait_for(lambda: "unk" not in self.call("sinfo", "-h", "-o", "%T"))

    def submit(self, seconds: float, *options: str, account: str = "nlp", **contract: Any) -> str:
        """Submit a job that sleeps; return its id."""
        comment = [f"--comment={json.dumps(contract)}"] if contract else []
        line = f"exec sleep {seconds}"
        args = ["-A", account, "-o", "/dev/null", *comment, *options, f"--wrap={line}"]
        return self.call("sbatch", "--parsable", *args).strip()

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Return all jobs that Slurm still shows, by id."""
        found = json.loads(self.call("squeue", "--json"))["jobs"]
        return {str(j["job_id"]): j for j in found}

    def records(self, since: str = "00:00") -> list[dict[str, Any]]:
        """Return every attempt that accounts know of."""
        states = "CA,CD,F,NF,R,PD,RQ,TO,PR,DL,OOM"
        out = self.call("sacct", "-a", "-D", "-X", "-S", since, "-E", "now", "-s", states, "--json")
        found: list[dict[str, Any]] = json.loads(out)["jobs"]
        return found

    def pid(self, node: str) -> int:
        """Return the process of a node's daemon."""
        return int((self.home / "run" / f"slurmd-{node}.pid").read_text())

    def kill_node(self, node: str) -> None:
        """Let a node die."""
        os.kill(self.pid(node), signal.SIGKILL)

    def revive_node(self, node: str) -> None:
        """Bring a dead node's daemon back."""
        self.call("slurmd", "-N", node)


@contextmanager
def cluster(nodes: int, accounts: bool) -> Iterator[Bed]:
    """Bring a cluster up, and take it down; its folder must be short and open for the database's user."""
    home = Path(tempfile.mkdtemp(prefix="gp-bed-", dir="/tmp"))
    home.chmod(0o755)
    made = Bed(Path(os.environ[SCRIPT]).resolve(), home / "tb", nodes, accounts, port=26_800)
    try:
        made.up()
        yield made
    finally:
        made.down()
        shutil.rmtree(home, ignore_errors=True)


def wait_for(true: Callable[[], Any], seconds: float = 30, every: float = 0.25) -> Any:
    """Wait until something is true, and return it."""
    until = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < until, f"not within {seconds} s"
        time.sleep(every)
    return found
