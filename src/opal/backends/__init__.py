"""Who answers a decision. Backends know neither torch nor each other."""
