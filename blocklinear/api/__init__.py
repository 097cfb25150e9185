"""The public functions: paths or objects in, options by keyword or in an object."""
