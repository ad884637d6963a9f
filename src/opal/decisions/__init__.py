"""When the agent is asked, and how an answer is waited for."""
