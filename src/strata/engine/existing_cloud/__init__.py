"""A cloud that others run: what it has, compared with what the site file expects of it."""
