"""Records what the site's resources were allocated to, and how they were used."""
