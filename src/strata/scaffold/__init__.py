"""What `strata new-role`, `new-service` and `new` write; each template works as it is."""
