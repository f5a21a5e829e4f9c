"""Pages for browsers, at a name of their own and behind the site's login."""
