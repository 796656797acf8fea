"""The project's own tools; no part of the distribution."""
