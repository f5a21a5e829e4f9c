"""Helm releases of a site as typed Pulumi components; `pulumi/platform` puts them together."""
