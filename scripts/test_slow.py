"""Run the slow tests in parts, one part per issue, and remember what has passed on this commit.

    python scripts/test_slow.py            every part (the folders tests/slow/issue_*)
    python scripts/test_slow.py 2          tests/slow/issue_02 alone
    python scripts/test_slow.py 2 --force  the same, also what has passed already

The unit that is remembered is a test file, so that a part that was stopped goes on where it was. Nothing is remembered
while the working tree differs from its commit. The exit status is 0 if all that was asked for has passed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TEST_TIMEOUT_S = 2400


@dataclass(frozen=True, kw_only=True)
class FileResult:
    """What one test file did: counts of tests, seconds, and whether it counts as passed."""

    passed: int
    failed: int
    skipped: int
    seconds: float
    ok: bool


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the summary table."""

    file: str
    result: FileResult
    remembered: bool


def commit_of(root: Path) -> str | None:
    """The commit of a clean working tree; None if files differ from it or there is none."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True)
    changes = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True)
    if head.returncode != 0 or changes.returncode != 0 or changes.stdout.strip():
        return None
    return head.stdout.strip()


def part_folders(root: Path, part: str | None) -> list[Path]:
    """The folders of the parts asked for, in order; raises SystemExit with what exists if there is none."""
    existing = sorted(path for path in (root / "tests" / "slow").glob("issue_*") if path.is_dir())
    if part is None:
        chosen = existing
    else:
        wanted = f"issue_{int(part):02d}" if part.isdigit() else part
        chosen = [path for path in existing if path.name == wanted]
    if not chosen:
        names = ", ".join(path.name for path in existing) or "none"
        raise SystemExit(f"no slow part {part or 'at all'} under {root / 'tests' / 'slow'}; there are: {names}")
    return chosen


def run_file(root: Path, file: str, workers: int) -> FileResult:
    """Run the slow tests of one file, output shown as it comes. A file in which no test is found has not passed."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-m", "slow", file, "-n", str(workers)]
        command += ["--timeout", str(TEST_TIMEOUT_S), f"--junitxml={report}"]
        started = time.monotonic()
        status = subprocess.run(command, cwd=root).returncode
        seconds = round(time.monotonic() - started, 1)
        counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        if report.exists():
            suites = list(ET.parse(report).getroot().iter("testsuite"))
            counts = {name: sum(int(suite.get(name, 0)) for suite in suites) for name in counts}
    failed = counts["failures"] + counts["errors"]
    passed = counts["tests"] - failed - counts["skipped"]
    return FileResult(passed=passed, failed=failed, skipped=counts["skipped"], seconds=seconds, ok=status == 0)


class Memory:
    """The results that passed on a commit, by file, in a small JSON file that git ignores."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / ".test_slow" / "passed.json"
        self.commit = commit_of(root)

    def get(self, file: str) -> FileResult | None:
        """The result of a file that passed on this commit, else None."""
        found = self._read().get(file)
        return FileResult(**found) if found else None

    def put(self, file: str, result: FileResult) -> None:
        """Remember a result that passed, forget one that failed; nothing if the tree was changed meanwhile."""
        if self.commit is None or commit_of(self._root) != self.commit:
            return
        results = self._read()
        results.pop(file, None)
        if result.ok:
            results[file] = asdict(result)
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text(json.dumps({self.commit: results}, indent=1))

    def _read(self) -> dict[str, dict[str, Any]]:
        if self.commit is None or not self._path.exists():
            return {}
        results: dict[str, dict[str, Any]] = json.loads(self._path.read_text()).get(self.commit, {})
        return results


def table(rows: list[Row]) -> str:
    """The summary: a line per file, then the sum."""
    width = max(len(row.file) for row in rows)
    lines = [f"{'slow tests':{width}}  passed  failed  skipped  seconds"]
    for row in rows:
        r = row.result
        note = "" if r.ok else "  FAILED"
        note += "  (passed before on this commit)" if row.remembered else ""
        lines.append(f"{row.file:{width}}  {r.passed:6}  {r.failed:6}  {r.skipped:7}  {r.seconds:7.1f}{note}")
    results = [row.result for row in rows]
    sums = [sum(r.passed for r in results), sum(r.failed for r in results), sum(r.skipped for r in results)]
    seconds = sum(r.seconds for r in results)
    lines.append(f"{'all':{width}}  {sums[0]:6}  {sums[1]:6}  {sums[2]:7}  {seconds:7.1f}")
    return "\n".join(lines)


def main(argv: list[str] | None = None, root: Path = ROOT) -> int:
    """Run what was asked for and print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description="Run the slow tests in parts, one part per issue.")
    parser.add_argument("part", nargs="?", help="number of an issue; default: every part")
    parser.add_argument("--force", action="store_true", help="run also what has passed on this commit")
    parser.add_argument("--workers", type=int, default=2, help="test processes (default 2)")
    options = parser.parse_args(argv)

    folders = part_folders(root, options.part)
    files = [path for folder in folders for path in sorted(folder.rglob("test_*.py"))]
    if not files:
        raise SystemExit(f"no test files in {', '.join(folder.name for folder in folders)}")
    memory = Memory(root)
    if memory.commit is None:
        print("the working tree differs from its commit: nothing is remembered", flush=True)
    rows: list[Row] = []
    for path in files:
        file = path.relative_to(root).as_posix()
        known = None if options.force else memory.get(file)
        result = known or run_file(root, file, options.workers)
        if known is None:
            memory.put(file, result)
        rows.append(Row(file=file, result=result, remembered=known is not None))
    print("\n" + table(rows), flush=True)
    return 0 if all(row.result.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
