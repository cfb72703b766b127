"""The smallest package worth installing."""


def greeting(name):
    """Return a greeting for name."""
    return f"hello from a package installed by {name}"
