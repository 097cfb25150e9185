"""JSON with one thing wrong in it, for readers that must refuse it with a sentence."""

KINDS = [None, True, -7, 10**30, 10**400, 0.5, "x", [], {}, [[]], {"a": 1}]


def json_faults(content, place=""):
    """Yield (what is wrong, the content with that) for every field, and the ends of every list.

    A value of each other kind stands in its place; a field is missing, and one too many.
    """
    for where, path in _places(content):
        value = _at(content, path)
        for other in KINDS:
            # texts are equal as a kind; integers are not, where they are out of any range
            if type(other) is type(value) and not (type(value) is int and other >= 10**30):
                continue
            yield (
                f"{where} = {str(other)[:12] if other != 'x' else repr(other)}",
                _changed(content, path, other),
            )
        if isinstance(path[-1], str):
            yield f"{where} missing", _changed(content, path)
        if type(value) is dict and value:
            yield f"{where} with more", _changed(content, path, value | {"more": 1})


def _places(content, where="", path=()):
    """Yield the name and the keys of every value within."""
    ends = list(enumerate(content))[:1] + list(enumerate(content))[1:][-1:]
    members = content.items() if isinstance(content, dict) else ends
    for key, value in members:
        name = f"{where}[{key}]" if isinstance(key, int) else f"{where}.{key}".lstrip(".")
        yield name, (*path, key)
        if isinstance(value, dict | list):
            yield from _places(value, name, (*path, key))


def _at(content, path):
    for key in path:
        content = content[key]
    return content


def _changed(content, path, *value):
    """Return a copy with a value in a place, or without it; what is not on the way is shared."""
    changed, (key, *rest) = content.copy(), path
    if rest:
        changed[key] = _changed(content[key], rest, *value)
    elif value:
        changed[key] = value[0]
    else:
        del changed[key]
    return changed
