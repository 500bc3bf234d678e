"""`gangplan ledger` and `--ledger`: from CSV and snapshots to the shares of a plan, and every refusal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from planner.ledger.csvfile import HEADER
from planner.units import format_time
from tests.planner.cli.calling import Called, gangplan, refused
from tests.planner.worlds import NOW, NOW_S, world

URL = "sqlite:///ledger.db"
HOUR = 3600
DAY = 24 * HOUR
SHARES = ("shares", "--site", "site.yaml", "--snapshot", "snapshot.yaml")


@pytest.fixture
def scene(folder: Path) -> Path:
    """Write a folder with a site of two allocations, a snapshot with one run, and a day of runs as CSV."""
    w = world({"a": 1, "b": 3}, workloads=[{"id": "r", "on": "n1"}, {"id": "p", "allocation": "b"}])
    (folder / "site.yaml").write_text(yaml.safe_dump(w.site_data))
    (folder / "snapshot.yaml").write_text(json.dumps(w.snapshot_data))
    lines = [
        f"s,{name},{NOW_S - DAY},{name},allocated,k,,{gpus},{NOW_S - DAY},{NOW_S},ended"
        for name, gpus in (("a", 16), ("b", 8))
    ]
    (folder / "runs.csv").write_text("\n".join([",".join(HEADER), *lines]) + "\n")
    return folder


def ledger(command: str, *args: str | Path) -> Called:
    return gangplan("ledger", command, "--ledger", URL, *args)


def shown(*args: str) -> dict[str, dict[str, float]]:
    called = ledger("show", "--site", "site.yaml", "--now", NOW, "-o", "json", *args)
    assert (called.code, called.err) == (0, "")
    return {row["allocation"]: row for row in json.loads(called.out)["allocations"]}


def test_a_file_is_imported_and_shown(scene: Path):
    called = ledger("import", "runs.csv")
    assert (called.code, called.err) == (0, "")
    assert called.out == "runs.csv: 2 new, 0 corrected, 0 prolonged, 0 known\n"
    rows = shown()
    assert rows["a"]["usage"] == rows["a"]["delivered"] == 16 * 24
    table = ledger("show", "--now", NOW).out.splitlines()
    assert table[0].split() == [
        "ALLOCATION", "SHARE", "USAGE", "CARRIED", "ENTITLED", "RATIO", "OWED", "DELIVERED",
    ]  # fmt: skip
    assert table[1].split()[:4] == ["a", "0.00%", "384.0", "0.0"]
    assert table[-1].endswith("24h of it known".replace("24h", "1d"))


def test_importing_twice_charges_once(scene: Path):
    ledger("import", "runs.csv")
    assert ledger("import", "runs.csv").out.endswith("0 new, 0 corrected, 0 prolonged, 2 known\n")
    assert shown()["a"]["usage"] == 16 * 24


def test_an_export_is_what_was_imported(scene: Path):
    ledger("import", "runs.csv")
    called = ledger("export", "--from", "2026-10-01T00:00:00Z", "--to", "2026-11-01T00:00:00Z")
    assert (called.code, called.err) == (0, "")
    assert called.out == (scene / "runs.csv").read_text()


def test_shares_and_plan_take_their_usage_from_a_ledger(scene: Path):
    ledger("import", "runs.csv")
    (row, *_) = (r for r in json.loads(gangplan(*SHARES, "--ledger", URL, "-o", "json").out))
    plan = ("plan", *SHARES[1:], "--backend", "greedy", "-o", "json")
    planned = json.loads(gangplan(*plan, "--ledger", URL).out)["shares"]
    for found in (row, next(r for r in planned if r["allocation"] == "a")):
        assert found["usage"] == found["delivered"] == 16 * 24
        assert found["entitled"] == 8 * 24
        assert found["ratio"] == 2
        assert found["owed"] == 8 * 24


def test_without_the_option_a_snapshot_stands_for_itself(scene: Path):
    site = yaml.safe_load((scene / "site.yaml").read_text())
    (scene / "site.yaml").write_text(yaml.safe_dump({**site, "ledger": URL}))
    ledger("import", "runs.csv")
    rows = json.loads(gangplan(*SHARES, "-o", "json").out)
    assert [row["usage"] for row in rows] == [0, 0]


def test_snapshots_observed_make_usage_entitlement_and_demand(scene: Path):
    data = json.loads((scene / "snapshot.yaml").read_text())
    for later_s in (0, 600, 1200):
        (scene / "snapshot.yaml").write_text(json.dumps({**data, "time": format_time(NOW_S + later_s)}))
        called = ledger("observe", "--site", "site.yaml", "--snapshot", "snapshot.yaml")
        assert (called.code, called.out, called.err) == (0, "", "")
    now = format_time(NOW_S + 1200)
    called = ledger("show", "--site", "site.yaml", "--now", now, "-o", "json")
    found = json.loads(called.out)
    assert found["known"] == "20m"
    a, b = found["allocations"]
    assert a["delivered"] == 8 * (3 + 1 / 3)
    assert (a["entitled"], b["entitled"]) == (8 / 3, 8)
    assert (a["owed"], b["owed"]) == (8 / 3, 8 / 3)


def test_pruning_says_what_goes_and_keeps_the_usage(scene: Path):
    ledger("import", "runs.csv")
    later = format_time(NOW_S + DAY)
    before = ledger("show", "--now", later).out
    called = ledger("prune", "--keep", "12h", "--now", later)
    assert (called.code, called.out, called.err) == (0, "2 statements removed\n", "")
    assert ledger("show", "--now", later).out == before
    assert "2 ended before what the ledger keeps" in ledger("import", "runs.csv").out
    assert ledger("show", "--now", later).out == before


def test_upgrade_makes_a_ledger_and_leaves_one_alone(scene: Path):
    assert ledger("upgrade").code == ledger("upgrade").code == 0
    assert shown()["a"]["usage"] == 0


# --- refusals


def test_every_bad_line_of_a_file_is_an_error_and_nothing_is_imported(scene: Path):
    ledger("upgrade")
    good = (scene / "runs.csv").read_text()
    (scene / "runs.csv").write_text(good + "x\n" + good.splitlines()[1].replace(",16,", ",0,") + "\n")
    errors = refused(ledger("import", "runs.csv"))
    assert [e.split(":")[1] for e in errors] == ["4", "5"]
    assert shown()["a"]["usage"] == 0


@pytest.mark.parametrize(
    "args",
    [
        ("show",),
        ("show", "--now", "today"),
        ("export", "--from", NOW, "--to", NOW),
        ("export", "--from", "2026-10-09", "--to", NOW),
        ("prune", "--keep", "90"),
        ("prune", "--keep", "90d"),
        ("import", "nothing.csv"),
        ("show", "--site", "nothing.yaml"),
    ],
)
def test_what_cannot_be_done_is_one_line(scene: Path, args: tuple[str, ...]):
    assert len(refused(ledger(*args))) == 1


@pytest.mark.parametrize("command", [("plan",), ("shares",)])
def test_a_ledger_that_is_not_there_is_not_made_by_reading_it(scene: Path, command: tuple[str]):
    (error,) = refused(gangplan(*command, *SHARES[1:], "--ledger", URL))
    assert "holds no ledger" in error
    assert not (scene / "ledger.db").exists()


def test_shares_by_a_ledger_need_a_snapshot(scene: Path):
    assert "gangplan ledger show" in gangplan("shares", "--site", "site.yaml", "--ledger", URL).err


def test_a_server_that_does_not_answer_is_the_sources_fault_and_its_password_is_not_shown(scene: Path):
    url = "postgresql://me:sesame@127.0.0.1:1/ledger"
    (error,) = refused(gangplan("ledger", "show", "--ledger", url), 4)
    assert "sesame" not in error


def test_planning_from_a_snapshot_loads_no_database(scene: Path):
    script = (
        "import sys; from planner.cli.main import main; sys.argv = ['gangplan', *sys.argv[1:]]\n"
        "try: main()\n"
        "finally: print('sqlalchemy' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *SHARES], capture_output=True, text=True, check=True, cwd=scene
    )
    assert done.stderr == "False\n"
