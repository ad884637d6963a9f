"""What `opal demo` trains: a small byte-level GPT on the sources of Python's standard library."""
