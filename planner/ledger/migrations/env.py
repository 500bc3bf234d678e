"""Runs the steps on the connection that the store hands over, inside its transaction."""

from alembic import context

from planner.ledger.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite cannot alter a table in place
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
