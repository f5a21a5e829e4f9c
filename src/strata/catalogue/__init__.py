"""The catalogue of platform services: each is one folder below services/, declared in its service.py."""
