"""Notes of tenants."""
