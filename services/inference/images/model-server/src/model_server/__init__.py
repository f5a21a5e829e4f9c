"""Serves one model over HTTP, as OpenAI's and Hugging Face's clients speak it."""
