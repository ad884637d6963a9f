"""What an edit of a program changed, in a line: rules that came or went, constants, functions."""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from opal.report.diff import FileDiff
from opal.report.wording import shortened

MOST_PARTS = 3

_LONGEST_VALUE = 40
_CALLED_BY_NAME = ("rules", "schedules", "carry", "optim")
_LITERAL_NODES = (
    ast.Constant,
    ast.UnaryOp,
    ast.BinOp,
    ast.Tuple,
    ast.List,
    ast.operator,
    ast.unaryop,
    ast.expr_context,
)


@dataclass(frozen=True, kw_only=True)
class ConstantChange:
    """A constant with another value, by the name under which it stands in the code."""

    name: str
    old: str
    new: str

    def __str__(self) -> str:
        """`Updater.lr 0.001 → 0.004`."""
        return f"{self.name} {self.old} → {self.new}"


@dataclass
class _Outline:
    """What a file names: constants with their values, calls of rules and schedules, functions and classes."""

    constants: dict[str, str] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    definitions: dict[str, str] = field(default_factory=dict)


def changed_constants(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[ConstantChange, ...]:
    """The constants that both programs have, with other values. Files that are no Python have none."""
    changes = []
    for path in _shared(old, new):
        outlines = _outlines(old[path], new[path])
        if outlines is None:
            continue
        before, after = outlines
        prefix = _prefix(path)
        changes += [
            ConstantChange(name=prefix + name, old=before.constants[name], new=value)
            for name, value in after.constants.items()
            if name in before.constants and before.constants[name] != value
        ]
    return tuple(changes)


def one_line_change(old: Mapping[str, str], new: Mapping[str, str], files: Sequence[FileDiff]) -> str:
    """The change in a line: calls and constants first, new functions next, else how many lines of which file."""
    parts = []
    for path in _shared(old, new):
        outlines = _outlines(old[path], new[path])
        if outlines is not None:
            parts += [_prefix(path) + part for part in _calls(*outlines)]
    parts += [str(change) for change in changed_constants(old, new)]
    for path in _shared(old, new):
        outlines = _outlines(old[path], new[path])
        if outlines is not None:
            parts += [_prefix(path) + part for part in _definitions(*outlines)]
    parts += [f"+ {path}" for path in new if path not in old] + [f"− {path}" for path in old if path not in new]
    if not parts:
        parts = [f"{file.path} +{file.added} −{file.removed} lines" for file in files]
    if not parts:
        return "no change of the files"
    more = len(parts) - MOST_PARTS
    return ", ".join(parts[:MOST_PARTS]) + (f" and {more} more" if more > 0 else "")


def _shared(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """The files that both have and that differ, `updater.py` first."""
    paths = [path for path in new if path in old and old[path] != new[path]]
    return sorted(paths, key=lambda path: (path != "updater.py", path))


def _prefix(path: str) -> str:
    return "" if path == "updater.py" else f"{path}: "


def _calls(before: _Outline, after: _Outline) -> list[str]:
    come = [f"+ {name}" for name in after.calls if after.calls[name] > before.calls[name]]
    gone = [f"− {name}" for name in before.calls if after.calls[name] < before.calls[name]]
    return come + gone


def _definitions(before: _Outline, after: _Outline) -> list[str]:
    come = [f"+ {kind} {name}" for name, kind in after.definitions.items() if name not in before.definitions]
    gone = [f"− {kind} {name}" for name, kind in before.definitions.items() if name not in after.definitions]
    return come + gone


@lru_cache(maxsize=4)
def _outlines(old: str, new: str) -> tuple[_Outline, _Outline] | None:
    """What two files name in those statements at the top that differ; None where one of them is no Python."""
    before, after = _statements(old), _statements(new)
    if before is None or after is None:
        return None
    try:
        return _outline(before, but=after), _outline(after, but=before)
    except RecursionError:
        return None


def _outline(statements: Mapping[str, ast.stmt], but: Mapping[str, ast.stmt]) -> _Outline:
    reader = _Reader()
    for text, statement in statements.items():
        if text not in but:
            reader.visit(statement)
    return reader.outline


@lru_cache(maxsize=16)
def _statements(text: str) -> Mapping[str, ast.stmt] | None:
    """The statements at the top of a file by their text; None where it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the file's own, such as an invalid escape
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    lines = text.split("\n")
    return {"\n".join(lines[statement.lineno - 1 : statement.end_lineno]): statement for statement in tree.body}


class _Reader(ast.NodeVisitor):
    """Walks a file and notes what it names."""

    def __init__(self) -> None:
        self.outline = _Outline()
        self._seen: Counter[str] = Counter()
        self._scope: list[str] = []
        self._classes: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class, and what is in it."""
        self._define(node.name, "class")
        self._scope.append(node.name)
        self._classes.append(".".join(self._scope))
        self.generic_visit(node)
        self._classes.pop()
        self._scope.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """A function, its defaults, and what is in it."""
        self._define(node.name, "def")
        self._scope.append(node.name)
        here = ".".join(self._scope)
        named = [*node.args.posonlyargs, *node.args.args]
        defaults = [*node.args.defaults, *node.args.kw_defaults]
        having = named[len(named) - len(node.args.defaults) :] + node.args.kwonlyargs
        for argument, default in zip(having, defaults, strict=True):
            self._note(f"{here}({argument.arg})", default)
        self.generic_visit(node)
        self._scope.pop()

    def visit_Assign(self, node: ast.Assign) -> None:
        """`name = 1`, `self.name = 1`."""
        for target in node.targets:
            self._assigned(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """`name: int = 1`."""
        if node.value is not None:
            self._assigned(node.target, node.value)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        """`{"lr": 1}`, as in parameter groups."""
        here = ".".join(self._scope)
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                self._note(f'{here}["{shortened(key.value, _LONGEST_VALUE)}"]', value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """`rules.Muon(lr=1)`: the call, its constants by keyword or place."""
        name = _dotted(node.func)
        if name:
            last = name.rpartition(".")[2]
            if (last[:1].isupper() and not last.endswith(("Error", "Exception"))) or _is_kit(name):
                self.outline.calls[name] += 1
            for place, argument in enumerate(node.args, 1):
                self._note(f"{name}(argument {place})", argument)
            for keyword in node.keywords:
                if keyword.arg:
                    self._note(f"{name}({keyword.arg})", keyword.value)
        self.generic_visit(node)

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._note(".".join([*self._scope, target.id]), value)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            owner = self._classes[-1] if self._classes else "self"
            self._note(f"{owner}.{target.attr}", value)
        elif isinstance(target, ast.Subscript):
            self._note(ast.unparse(target), value)

    def _define(self, name: str, kind: str) -> None:
        self.outline.definitions[".".join([*self._scope, name])] = kind

    def _note(self, name: str, value: ast.expr | None) -> None:
        """Keep a constant; a name that comes again is numbered."""
        if value is None or not _is_literal(value):
            return
        self._seen[name] += 1
        key = name if self._seen[name] == 1 else f"{name} ({self._seen[name]})"
        self.outline.constants[key] = shortened(ast.unparse(value), _LONGEST_VALUE)


def _is_literal(node: ast.expr) -> bool:
    """A number, text, truth value or None; a list or sum of such."""
    if isinstance(node, ast.List | ast.Tuple) and not node.elts:
        return False
    return all(isinstance(part, _LITERAL_NODES) for part in ast.walk(node))


def _is_kit(name: str) -> bool:
    return any(part in _CALLED_BY_NAME for part in name.split(".")[:-1])


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
