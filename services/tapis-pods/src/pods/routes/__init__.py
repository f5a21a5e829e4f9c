"""Routes below /v3/pods."""
