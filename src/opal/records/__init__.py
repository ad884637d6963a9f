"""What a run leaves on disk: every path, every event, the only writer, the reader."""
