"""The pages: models and datasets in a browser, by the API's own functions."""
