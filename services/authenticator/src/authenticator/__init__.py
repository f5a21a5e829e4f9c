"""Login, sites and tenants as Tapis' clients expect them."""
