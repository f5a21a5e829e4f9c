"""Versions of the database schema."""

from __future__ import annotations

from pathlib import Path

from strata_http.migrations import Migrations

MIGRATIONS = Migrations(Path(__file__).parent / "versions")
