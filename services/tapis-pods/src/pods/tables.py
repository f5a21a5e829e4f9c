"""The tables, as the migrations leave them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    cast,
    func,
    literal,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

metadata = MetaData()
CHANNEL = "pods"
"""Of NOTIFY: something was requested of a pod of the tenant that the payload names."""
FILES_CHANNEL = "pods_files"
"""Of NOTIFY: files are to be copied or removed."""

pods = Table(
    "pods",
    metadata,
    Column("pod_id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("spec", JSONB, nullable=False),
    Column("overrides", JSONB, nullable=False),
    Column("run", Integer, nullable=False),
    Column("run_spec", JSONB(none_as_null=True)),
    Column("status_requested", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("status_container", JSONB, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("user_password", Text, nullable=False),
    Column("log", Text, nullable=False),
    Column("log_run", Integer, nullable=False),
    Column("action_logs", ARRAY(Text), nullable=False),
    Column("creation_ts", DateTime(timezone=True), nullable=False),
    Column("update_ts", DateTime(timezone=True), nullable=False),
    Column("start_instance_ts", DateTime(timezone=True)),
    Column("time_to_stop_ts", DateTime(timezone=True)),
    Column("gpu_idle_stop_ts", DateTime(timezone=True)),
    Column("stop_reason", Text, nullable=False),
)

permissions = Table(
    "permissions",
    metadata,
    Column("pod_id", Text, primary_key=True),
    Column("username", Text, primary_key=True),
    Column("level", Text, nullable=False),
)

templates = Table(
    "templates",
    metadata,
    Column("template_id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("metatags", ARRAY(Text), nullable=False),
    Column("archive_message", Text, nullable=False),
    Column("creation_ts", DateTime(timezone=True), nullable=False),
    Column("update_ts", DateTime(timezone=True), nullable=False),
)

template_permissions = Table(
    "template_permissions",
    metadata,
    Column("template_id", Text, primary_key=True),
    Column("username", Text, primary_key=True),
    Column("level", Text, nullable=False),
)

template_tags = Table(
    "template_tags",
    metadata,
    Column("number", BigInteger, primary_key=True),
    Column("template_id", Text, nullable=False),
    Column("tag", Text, nullable=False),
    Column("timestamp", Text, nullable=False),
    Column("pod_definition", JSONB, nullable=False),
    Column("commit_message", Text, nullable=False),
    Column("added_by", Text, nullable=False),
    Column("creation_ts", DateTime(timezone=True), nullable=False),
)

images = Table(
    "images",
    metadata,
    Column("image", Text, primary_key=True),
    Column("tenant", Text, primary_key=True),
    Column("description", Text, nullable=False),
    Column("added_by", Text, nullable=False),
    Column("creation_ts", DateTime(timezone=True), nullable=False),
)

volumes = Table(
    "volumes",
    metadata,
    Column("volume_id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("size_limit", Integer, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("creation_ts", DateTime(timezone=True), nullable=False),
    Column("update_ts", DateTime(timezone=True), nullable=False),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("snapshot_id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("source_volume_id", Text, nullable=False),
    Column("source_volume_path", Text, nullable=False),
    Column("destination_path", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("size_limit", Integer, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    Column("status_message", Text, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("creation_ts", DateTime(timezone=True), nullable=False),
    Column("update_ts", DateTime(timezone=True), nullable=False),
)

volume_permissions, snapshot_permissions = (
    Table(
        f"{kind}_permissions",
        metadata,
        Column(f"{kind}_id", Text, primary_key=True),
        Column("username", Text, primary_key=True),
        Column("level", Text, nullable=False),
    )
    for kind in ("volume", "snapshot")
)

WITHOUT_INSTANCE = pods.c.spec.op("-", return_type=JSONB())(cast(literal("time_to_stop_instance"), Text))
"""The spec without what was for one run only."""
NOTIFY = select(func.pg_notify(CHANNEL, pods.c.tenant)).where(pods.c.pod_id == bindparam("pod_id"))
NOTIFY_FILES = text(f"NOTIFY {FILES_CHANNEL}")
LOG_ACTION = text(
    """
    UPDATE pods SET action_logs = (
        array_append(action_logs, to_char(now() AT TIME ZONE 'UTC', 'YY/MM/DD HH24\\:MI\\: ') || CAST(:line AS text))
    )[greatest(1, cardinality(action_logs) - 98)\\:] WHERE pod_id = :pod_id
    """
)
"""Adds an entry in Tapis' form, "yy/mm/dd hh:mm: text", and keeps the last 100."""
