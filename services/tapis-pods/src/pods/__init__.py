"""Pods API: users' containers with a name of their own, in the form of Tapis' Pods API."""
