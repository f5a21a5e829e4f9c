"""What HTTP services share: a service adds its settings, tables and routes."""
