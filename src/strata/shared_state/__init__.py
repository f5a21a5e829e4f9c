"""State of a site that a team shares: encrypted snapshots and a lock in an S3 bucket."""
