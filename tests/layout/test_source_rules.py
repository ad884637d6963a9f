"""Every module says what it is, files and functions stay small, annotations cost nothing at import."""

from __future__ import annotations

import ast
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src"
MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 60


def has_annotations(tree: ast.Module) -> bool:
    """Whether the module annotates an argument, a result or a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) or (isinstance(node, ast.arg) and node.annotation is not None):
            return True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            return True
    return False


def defers_annotations(tree: ast.Module) -> bool:
    """Whether the module has `from __future__ import annotations`."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    return any(name.name == "annotations" for node in imports for name in node.names)


def modules_against_the_rules(src: Path) -> list[str]:
    """Modules without docstring, or with annotations that are evaluated; folders of modules that are no package."""
    found = []
    for path in sorted((src / "opal").rglob("*.py")):
        name, tree = path.relative_to(src).as_posix(), ast.parse(path.read_text())
        if not (ast.get_docstring(tree) or "").strip():
            found.append(f"{name}: no docstring")
        if has_annotations(tree) and not defers_annotations(tree):
            found.append(f"{name}: needs `from __future__ import annotations`")
    folders = sorted({path.parent for path in (src / "opal").rglob("*.py")})
    found += [
        f"{path.relative_to(src).as_posix()}: no __init__.py" for path in folders if not (path / "__init__.py").exists()
    ]
    return found


def length_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, the docstring's lines not counted."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def too_long(src: Path) -> list[str]:
    """Files and functions that are longer than the limits."""
    found = []
    for path in sorted(src.rglob("*.py")):
        name, text = path.relative_to(src).as_posix(), path.read_text()
        lines = len(text.splitlines())
        if lines > MOST_LINES_OF_A_FILE:
            found.append(f"{name}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = length_without_docstring(node)
                if length > MOST_LINES_OF_A_FUNCTION:
                    found.append(f"{name}:{node.lineno} {node.name}: {length} lines")
    return found


def test_modules_have_docstrings_and_deferred_annotations() -> None:
    assert modules_against_the_rules(SRC) == []


def test_modules_against_the_rules_are_found(tmp_path: Path) -> None:
    texts = {
        "opal/__init__.py": '"""The package."""\n',
        "opal/fine.py": '"""Fine."""\n\nfrom __future__ import annotations\n\nx: int = 1\n',
        "opal/silent.py": "x = 1\n",
        "opal/empty_docstring.py": '""" """\n',
        "opal/eager_argument.py": '"""Eager."""\n\ndef run(x: int):\n    pass\n',
        "opal/eager_result.py": '"""Eager."""\n\nasync def run() -> int:\n    return 1\n',
        "opal/eager_name.py": '"""Eager."""\n\nx: int = 1\n',
        "opal/bare/clock.py": '"""Clock."""\n',
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert modules_against_the_rules(tmp_path) == [
        "opal/eager_argument.py: needs `from __future__ import annotations`",
        "opal/eager_name.py: needs `from __future__ import annotations`",
        "opal/eager_result.py: needs `from __future__ import annotations`",
        "opal/empty_docstring.py: no docstring",
        "opal/silent.py: no docstring",
        "opal/bare: no __init__.py",
    ]


def test_files_and_functions_are_within_the_limits() -> None:
    assert too_long(SRC) == []


def test_a_long_file_and_a_long_function_are_found(tmp_path: Path) -> None:
    docstring = '    """First.\n' + "\n" * 30 + '    """\n'
    (tmp_path / "at_the_limit.py").write_text("def run():\n" + docstring + "    pass\n" * 59 + "\n" * 308)
    (tmp_path / "long_file.py").write_text("x = 1\n" * 401)
    (tmp_path / "long_function.py").write_text("x = 1\nasync def run():\n" + docstring + "    pass\n" * 60)
    assert too_long(tmp_path) == ["long_file.py: 401 lines", "long_function.py:2 run: 61 lines"]
