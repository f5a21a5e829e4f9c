"""What stands in for hardware in the lab's OpenStack."""
