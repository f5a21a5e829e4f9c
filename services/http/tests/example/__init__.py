"""A service of the tests: who is calling, a row of the database, a failure."""
