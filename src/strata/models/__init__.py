"""The site model: the sections of a site file, each checked alone."""
