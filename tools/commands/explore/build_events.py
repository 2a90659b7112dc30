"""Reads the result of each target of a build from the file of events that Bazel writes (--build_event_json_file)."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

NOT_FOR_BOARD = "this variant is not for this board"


@dataclass(frozen=True)
class Built:
    """A target that was to be built: the addresses of its output group's files, or in a line why there are none."""

    files: tuple[str, ...] = ()
    reason: str = ""


def read_build_events(path: Path) -> dict[str, Built]:
    """Returns what became of each target, by its label."""
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    sets: dict[str, Any] = {}
    actions: dict[str, str] = {}
    for event in events:
        if named := event["id"].get("namedSet"):
            sets[named["id"]] = event.get("namedSetOfFiles", {})
        elif (action := event["id"].get("actionCompleted")) and not event.get("action", {}).get("success"):
            actions[_action_key(action)] = _reason(event.get("action", {}))
    found = {}
    for event in events:
        target = event["id"].get("targetCompleted")
        if not target:
            continue
        completed = event.get("completed", {})
        if completed.get("success"):
            ids = [entry["id"] for group in completed.get("outputGroup", []) for entry in group.get("fileSets", [])]
            found[target["label"]] = Built(
                tuple(dict.fromkeys(file for number in ids for file in _files(sets, number)))
            )
        else:
            children = [child["actionCompleted"] for child in event.get("children", []) if "actionCompleted" in child]
            reasons = [actions[key] for child in children if (key := _action_key(child)) in actions]
            aborted = event.get("aborted", {})
            message = aborted.get("description") or completed.get("failureDetail", {}).get("message", "")
            if aborted.get("reason") == "SKIPPED":
                message = NOT_FOR_BOARD
            found[target["label"]] = Built(reason=reasons[0] if reasons else _line(message))
    return found


def _action_key(action: dict[str, Any]) -> str:
    return f"{action.get('label')} {action.get('primaryOutput')}"


def _files(sets: dict[str, Any], number: str) -> Iterator[str]:
    for file in sets.get(number, {}).get("files", []):
        yield file["uri"]
    for inner in sets.get(number, {}).get("fileSets", []):
        yield from _files(sets, inner["id"])


def path_of(uri: str) -> str:
    """Returns the path of a file's address."""
    return unquote(urlparse(uri).path)


def _reason(action: dict[str, Any]) -> str:
    uri = action.get("stderr", {}).get("uri", "")
    path = Path(path_of(uri))
    text = path.read_text(encoding="utf-8", errors="replace") if uri.startswith("file:") and path.is_file() else ""
    return _line(text) or _line(action.get("failureDetail", {}).get("message", ""))


def _line(text: str) -> str:
    """Returns the sentence of a message that says most without tool and image: the first with an error, or just it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "")
    return re.sub(r"^(\w+: error|ERROR): (\w+ (?=does not fit))?", "", line).partition(". ")[0].removesuffix(".")
