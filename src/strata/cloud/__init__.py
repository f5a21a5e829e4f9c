"""OpenStack objects of a site as typed Pulumi components; `pulumi/cloud` puts them together."""
