"""What a cluster that is driven must be known by: the lease of the planner, its workloads and its nodes."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables, and the one row of the lease."""
    lease = op.create_table(
        "lease",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("holder", NAME, nullable=False),
        sa.Column("until_s", sa.BigInteger, nullable=False),
        sa.CheckConstraint("id = 1", name="one_lease"),
    )
    op.bulk_insert(lease, [{"id": 1, "token": 0, "holder": "", "until_s": 0}])
    op.create_table(
        "workloads",
        sa.Column("source", NAME, nullable=False),
        sa.Column("workload", NAME, nullable=False),
        sa.Column("submitted_s", sa.BigInteger, nullable=False),
        sa.Column("seen_s", sa.BigInteger, nullable=False),
        sa.Column("occupancy", NAME),
        sa.Column("placement", NAME),
        sa.Column("failures", sa.BigInteger, nullable=False),
        sa.Column("retry_s", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("source", "workload"),
    )
    op.create_table(
        "nodes",
        sa.Column("source", NAME, nullable=False),
        sa.Column("node", NAME, nullable=False),
        sa.Column("unwell_s", sa.BigInteger, nullable=False),
        sa.Column("repairing", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("source", "node"),
    )
    op.create_table(
        "accounts",
        sa.Column("source", NAME, primary_key=True),
        sa.Column("until_s", sa.BigInteger, nullable=False),
    )
