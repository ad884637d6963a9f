"""The programs that agents write: their files, how they are loaded, run, and undone."""
