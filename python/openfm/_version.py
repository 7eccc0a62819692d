"""The version, in its one place: packaging reads it here, and a test holds the library to it."""

__version__ = "0.1.0"
