"""What replaces hardware in the lab's OpenStack."""
