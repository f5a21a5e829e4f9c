"""A site's cache of the Hugging Face Hub, and the repositories of its tenants beside it."""
