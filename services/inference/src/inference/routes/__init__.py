"""Routes: OpenAI's, Hugging Face's tasks, ML Hub's."""
