"""What an agent reads: system prompt, messages, inbox, workspace. Works without torch."""
