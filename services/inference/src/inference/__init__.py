"""Inference: models of the site behind tokens, started by the first request and stopped after the last."""
