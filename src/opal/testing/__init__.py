"""Fakes and suites for tests of OPAL, of programs, and of other people's backends."""
