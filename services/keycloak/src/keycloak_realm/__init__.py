"""Keeps the realm of a site as Strata describes it, and manages its users, by Keycloak's Admin REST API.

It has no dependencies beyond Python: it runs beside Keycloak in Keycloak's own image."""
