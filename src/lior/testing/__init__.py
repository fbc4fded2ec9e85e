"""Fakes for tests, shipped for users' tests too."""
