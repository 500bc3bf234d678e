"""Occupancy, hours, demand, rounds and promises."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create all tables, and the one row of the clock."""
    clock = op.create_table(
        "clock",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        *_wholes("horizon_s"),
        sa.Column("observed_s", sa.BigInteger),
        sa.CheckConstraint("id = 1", name="one_clock"),
    )
    op.bulk_insert(clock, [{"id": 1, "horizon_s": 0, "observed_s": None}])
    _intervals()
    _hours()
    _rounds()


def _names(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, NAME, nullable=False) for name in names]


def _wholes(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]


def _intervals() -> None:
    key = ("source", "workload", "started_s", "cluster", "gpu_type", "revision")
    op.create_table(
        "intervals",
        sa.Column("id", SERIAL, primary_key=True),
        *_names("source", "workload"),
        *_wholes("started_s"),
        *_names("cluster", "gpu_type"),
        *_wholes("revision"),
        sa.Column("current", sa.Boolean, nullable=False),
        *_names("allocation", "occupancy"),
        *_wholes("gpus", "begin_s", "end_s"),
        sa.Column("running", sa.Boolean, nullable=False),
        *_wholes("from_s", "until_s"),
        sa.UniqueConstraint(*key, name="one_word_at_a_time"),
        sa.CheckConstraint("end_s >= begin_s AND until_s >= from_s AND gpus > 0", name="forward_in_time"),
    )
    for name, column in (("from", "from_s"), ("until", "until_s"), ("end", "end_s")):
        op.create_index(f"intervals_by_{name}", "intervals", [column])
    op.create_table(
        "hourly",
        *_wholes("hour_s"),
        *_names("allocation", "gpu_type", "occupancy"),
        *_wholes("gpu_s", "gpus_at"),
        sa.PrimaryKeyConstraint("hour_s", "allocation", "gpu_type", "occupancy"),
    )


def _hours() -> None:
    op.create_table(
        "hours",
        sa.Column("hour_s", sa.BigInteger, primary_key=True, autoincrement=False),
        *_wholes("first_s", "last_s", "observed_s"),
    )
    op.create_table(
        "capacity",
        *_wholes("hour_s"),
        *_names("cluster", "gpu_type"),
        *_wholes("gpu_s"),
        sa.PrimaryKeyConstraint("hour_s", "cluster", "gpu_type"),
    )
    op.create_table(
        "demand",
        *_wholes("hour_s"),
        *_names("allocation"),
        *_wholes("share_ppb_s", "gpu_s"),
        sa.PrimaryKeyConstraint("hour_s", "allocation"),
    )


def _rounds() -> None:
    op.create_table(
        "rounds",
        sa.Column("fence", SERIAL, primary_key=True),
        *_wholes("time_s"),
        *_names("snapshot", "backend", "status"),
        sa.Column("objective", sa.Float, nullable=False),
        *_wholes("starts", "preemptions"),
        sqlite_autoincrement=True,
    )
    op.create_index("rounds_by_time", "rounds", ["time_s"])
    op.create_table(
        "promises",
        sa.Column("fence", SERIAL, sa.ForeignKey("rounds.fence", ondelete="CASCADE"), nullable=False),
        *_names("workload"),
        *_wholes("start_s"),
        *_names("placement"),
        sa.PrimaryKeyConstraint("fence", "workload"),
    )
