"""Several ranks behind one object."""
