"""The tables, one schema for SQLite and PostgreSQL. Times are epoch seconds, amounts GPUs or GPU-seconds.

`intervals` is what was said of runs; its `from_s` and `until_s` are what that counts for. `hourly` is derived
from these and can be built anew at any time. `hours`, `capacity` and `demand` say how much of the past is
known, and what there was to share in it.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

VERSION = "0002"
"""The newest migration: what a ledger must be at to be used."""

HOUR_S = 3600

metadata = MetaData()

NAME = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that sorts by code point on both databases."""

SERIAL = BigInteger().with_variant(Integer, "sqlite")


def _name(name: str) -> Column[str]:
    return Column(name, NAME, nullable=False)


def _whole(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


clock = Table(
    "clock",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _whole("horizon_s"),
    Column("observed_s", BigInteger),
    CheckConstraint("id = 1", name="one_clock"),
)
"""One row: before `horizon_s` (a full hour) only hours are kept; `observed_s` is the newest observation.

On PostgreSQL a writer holds this row, so that writers take turns as they do on SQLite.
"""

intervals = Table(
    "intervals",
    metadata,
    Column("id", SERIAL, primary_key=True),
    _name("source"),
    _name("workload"),
    _whole("started_s"),
    _name("cluster"),
    _name("gpu_type"),
    _whole("revision"),
    Column("current", Boolean, nullable=False),
    _name("allocation"),
    _name("occupancy"),
    _whole("gpus"),
    _whole("begin_s"),
    _whole("end_s"),
    Column("running", Boolean, nullable=False),
    _whole("from_s"),
    _whole("until_s"),
    UniqueConstraint(
        "source", "workload", "started_s", "cluster", "gpu_type", "revision", name="one_word_at_a_time"
    ),
    CheckConstraint("end_s >= begin_s AND until_s >= from_s AND gpus > 0", name="forward_in_time"),
    Index("intervals_by_from", "from_s"),
    Index("intervals_by_until", "until_s"),
    Index("intervals_by_end", "end_s"),
)

hourly = Table(
    "hourly",
    metadata,
    _whole("hour_s"),
    _name("allocation"),
    _name("gpu_type"),
    _name("occupancy"),
    _whole("gpu_s"),
    _whole("gpus_at"),
    PrimaryKeyConstraint("hour_s", "allocation", "gpu_type", "occupancy"),
)
"""GPU-seconds held in each hour, and GPUs held in its first second."""

hours = Table(
    "hours",
    metadata,
    Column("hour_s", BigInteger, primary_key=True, autoincrement=False),
    _whole("first_s"),
    _whole("last_s"),
    _whole("observed_s"),
)
"""The part of each known hour from `first_s` to `last_s`; `observed_s` seconds of it stand in `capacity`."""

capacity = Table(
    "capacity",
    metadata,
    _whole("hour_s"),
    _name("cluster"),
    _name("gpu_type"),
    _whole("gpu_s"),
    PrimaryKeyConstraint("hour_s", "cluster", "gpu_type"),
)
"""GPU-seconds that were there to be used."""

demand = Table(
    "demand",
    metadata,
    _whole("hour_s"),
    _name("allocation"),
    _whole("share_ppb_s"),
    _whole("gpu_s"),
    PrimaryKeyConstraint("hour_s", "allocation"),
)
"""GPU-seconds asked for by allocated work, and the share (parts per billion x seconds) of its time."""

rounds = Table(
    "rounds",
    metadata,
    Column("fence", SERIAL, primary_key=True),
    _whole("time_s"),
    _name("snapshot"),
    _name("backend"),
    _name("status"),
    Column("objective", Float, nullable=False),
    _whole("starts"),
    _whole("preemptions"),
    Index("rounds_by_time", "time_s"),
    sqlite_autoincrement=True,  # a fence is never given twice
)

promises = Table(
    "promises",
    metadata,
    Column("fence", SERIAL, ForeignKey("rounds.fence", ondelete="CASCADE"), nullable=False),
    _name("workload"),
    _whole("start_s"),
    _name("placement"),
    PrimaryKeyConstraint("fence", "workload"),
)
"""The promises of each round; `placement` is JSON: a list of [node, GPUs]."""

lease = Table(
    "lease",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _whole("token"),
    _name("holder"),
    _whole("until_s"),
    CheckConstraint("id = 1", name="one_lease"),
)
"""One row: who may plan until when, and the token that grows each time the lease changes hands."""

workloads = Table(
    "workloads",
    metadata,
    _name("source"),
    _name("workload"),
    _whole("submitted_s"),
    _whole("seen_s"),
    Column("occupancy", NAME),
    Column("placement", NAME),
    _whole("failures"),
    _whole("retry_s"),
    PrimaryKeyConstraint("source", "workload"),
)
"""What a source forgets of its workloads: the first submit, what the newest start was decided as, where it
was last seen to run (JSON as in `promises`), and how often it failed to start and when to try again."""

nodes = Table(
    "nodes",
    metadata,
    _name("source"),
    _name("node"),
    _whole("unwell_s"),
    Column("repairing", Boolean, nullable=False),
    PrimaryKeyConstraint("source", "node"),
)
"""When a node was last seen unwell, and whether its repair has been called for since."""

accounts = Table(
    "accounts",
    metadata,
    Column("source", NAME, primary_key=True),
    _whole("until_s"),
)
"""Up to when the accounts of a source have been read."""
