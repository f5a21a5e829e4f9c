"""Pod images: built, laid out, pushed to the registry of a site."""
