"""A version of a program becomes modules: fresh ones under a private package, never on `sys.path`.

Imports between workspace files are rewritten to the private package when a file is compiled, so that two versions share
no module state, and so that the modules are ordinary ones for `inspect`, `pickle` and compilers. Sources come from
memory: a version can be loaded where there is no shared folder.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import linecache
import sys
import weakref
from collections.abc import Iterator, Mapping
from types import CodeType, ModuleType
from typing import Any

from opal.programs.contract import ProgramFiles

_PREFIX = "_opal_program_"
_counter = itertools.count(1)


class ProgramModules:
    """The modules of one loaded version. They are forgotten with this object, or by `unload`; objects made from them
    live on.
    """

    def __init__(self, version: str, files: ProgramFiles) -> None:
        self.version = version
        self.files = files
        self.package = f"{_PREFIX}{next(_counter)}_{version}"
        finder = _finder()
        finder.add(self.package, version, files.texts)
        self._end = weakref.finalize(self, finder.remove, self.package)
        self._end.atexit = False

    def load(self, name: str) -> ModuleType:
        """Import `updater` or `analysis` of this version. Whatever the program raises comes through."""
        return importlib.import_module(f"{self.package}.{name}")

    def unload(self) -> None:
        """Remove the modules from `sys.modules` and their sources from the line cache."""
        self._end()


class _Loader(importlib.abc.InspectLoader):
    """Loads one module from a text."""

    def __init__(self, text: str, filename: str, package: str, local: frozenset[str]) -> None:
        self._text = text
        self._filename = filename
        self._package = package
        self._local = local

    def get_source(self, fullname: str) -> str:
        return self._text

    def get_filename(self, fullname: str) -> str:
        return self._filename

    def get_code(self, fullname: str) -> CodeType:
        tree = _LocalImports(self._package, self._local).rewrite(ast.parse(self._text, self._filename))
        code: CodeType = compile(tree, self._filename, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = self._filename
        exec(self.get_code(module.__name__), module.__dict__)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of loaded versions; every other import passes it by."""

    def __init__(self) -> None:
        self._packages: dict[str, tuple[str, Mapping[str, str]]] = {}

    def add(self, package: str, version: str, texts: Mapping[str, str]) -> None:
        self._packages[package] = (version, texts)
        for path, text in texts.items():
            filename = f"{version}/{path}"
            # No modification time: the cache never looks for a file of this name on disk.
            linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)

    def remove(self, package: str) -> None:
        version, texts = self._packages.pop(package, ("", {}))
        for name in [name for name in list(sys.modules) if name == package or name.startswith(f"{package}.")]:
            del sys.modules[name]
        if not any(other == version for other, _ in self._packages.values()):
            for path in texts:
                linecache.cache.pop(f"{version}/{path}", None)

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(_PREFIX):
            return None
        package, _, rest = fullname.partition(".")
        if package not in self._packages:
            return None
        version, texts = self._packages[package]
        stem = rest.replace(".", "/")
        local = frozenset(name.split("/")[0].removesuffix(".py") for name in texts)
        for file, is_package in ((f"{stem}/__init__.py", True), (f"{stem}.py", False)):
            if rest and file in texts:
                loader = _Loader(texts[file], f"{version}/{file}", package, local)
                return importlib.util.spec_from_loader(
                    fullname, loader, origin=f"{version}/{file}", is_package=is_package
                )
        if not rest or any(name.startswith(f"{stem}/") for name in texts):
            return importlib.util.spec_from_loader(fullname, _Loader("", version, package, local), is_package=True)
        return None


class _LocalImports:
    """Turns absolute imports of workspace modules into imports from the private package."""

    def __init__(self, package: str, local: frozenset[str]) -> None:
        self._package = package
        self._local = local

    def rewrite(self, tree: ast.Module) -> ast.Module:
        """Rewrite the imports of a module in place, wherever statements stand."""
        todo: list[ast.AST] = [tree]
        while todo:
            node = todo.pop()
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                below = getattr(node, field, None)
                if isinstance(below, list):
                    below[:] = [part for statement in below for part in self._parts(statement)]
                    todo += below
        return tree

    def _parts(self, node: ast.AST) -> list[Any]:
        """What stands in the place of one statement."""
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module and self._is_local(node.module):
            node.module = f"{self._package}.{node.module}"
        if not isinstance(node, ast.Import) or not any(self._is_local(alias.name) for alias in node.names):
            return [node]
        return [
            ast.fix_missing_locations(ast.copy_location(part, node))
            for alias in node.names
            for part in (self._rewritten(alias) if self._is_local(alias.name) else [ast.Import(names=[alias])])
        ]

    def _is_local(self, name: str) -> bool:
        return name.split(".")[0] in self._local

    def _rewritten(self, alias: ast.alias) -> Iterator[ast.stmt]:
        top, _, below = alias.name.partition(".")
        if below:
            yield ast.Import(names=[ast.alias(f"{self._package}.{alias.name}", alias.asname or "_opal_imported")])
        if not below or not alias.asname:
            yield ast.ImportFrom(module=self._package, names=[ast.alias(top, None if below else alias.asname)], level=0)


def _finder() -> _Finder:
    """The one finder of this process, put first in line when it is needed."""
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            return finder
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    return finder
