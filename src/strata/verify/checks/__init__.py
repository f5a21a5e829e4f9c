"""The checks; `strata verify SITE` runs them, and so does tests/lab."""
