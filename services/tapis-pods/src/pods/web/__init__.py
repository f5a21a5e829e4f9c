"""The pages: users' pods in a browser, with the session's rights and by the API's own functions."""
