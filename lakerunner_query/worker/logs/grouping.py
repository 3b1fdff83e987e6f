"""Which files of a unit can be scanned by one statement.

Two files cannot when a stream id means different label sets in them (ids are hashes), or when a column holds
another type (an attribute sent as a number here and as text there): a union would show `true` as `1`.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakerunner_query.worker.opening import Opened

Meaning = dict[str | int, object]


def groups(files: Iterable[Opened]) -> list[list[Opened]]:
    """As few groups as going through the files once gives; nearly always one."""
    found: list[tuple[Meaning, list[Opened]]] = []
    for file in files:
        meaning = _meaning(file)
        for known, members in found:
            if all(known.get(key, value) == value for key, value in meaning.items()):
                known.update(meaning)
                members.append(file)
                break
        else:
            found.append((meaning, [file]))
    return [members for _known, members in found]


def _meaning(file: Opened) -> Meaning:
    meaning: Meaning = {stream.stream_id: stream.labels for stream in file.streams}
    meaning.update(file.footer.columns)
    return meaning
