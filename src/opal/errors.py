"""Every error that OPAL raises, in one tree.

OpalError
├── ArgumentError                 an argument of a public function is wrong
│   ├── ArgumentValueError        (also ValueError)
│   └── ArgumentTypeError         (also TypeError)
├── NotBuiltError                 (also NotImplementedError) a documented feature that this version does not have yet
├── InstallationError             (also ImportError) torch or an extra is missing or too old
├── RunStateError                 (also RuntimeError) the call does not fit the state of the run
├── ProgramError                  a program failed; training goes on
│   ├── ProgramFileError          its files break a rule
│   └── ProgramContractError      it does not keep the contract of `updater.py` or `analysis.py`
├── BackendError                  an agent gave no answer
│   ├── BackendUnavailableError   not now, perhaps later
│   └── BackendFailedError        this turn failed on its own
└── RunFolderError                a folder is no run, is damaged, or is in use
"""

from __future__ import annotations


class OpalError(Exception):
    """Root of every error that OPAL raises."""


class ArgumentError(OpalError):
    """An argument is wrong: which one, what was given, what is allowed."""

    def __init__(self, argument: str, value: object, allowed: str) -> None:
        self.argument = argument
        self.value = value
        self.allowed = allowed
        super().__init__(f"{argument}={_shown(value)}: {allowed}")


class ArgumentValueError(ArgumentError, ValueError):
    """The type is right, the value is not."""


class ArgumentTypeError(ArgumentError, TypeError):
    """The type is wrong."""


class NotBuiltError(OpalError, NotImplementedError):
    """A documented feature that this version does not have yet."""

    def __init__(self, feature: str, remedy: str) -> None:
        self.feature = feature
        self.remedy = remedy
        super().__init__(f"{feature} is not built yet: {remedy}")


class InstallationError(OpalError, ImportError):
    """A package that is needed is missing or too old; the text says what to install."""


class RunStateError(OpalError, RuntimeError):
    """The call does not fit the state of the run."""


class ProgramError(OpalError):
    """A program failed. `where` is `file:line` inside the program, or the file alone."""

    def __init__(self, message: str, *, where: str = "") -> None:
        self.where = where
        super().__init__(f"{where}: {message}" if where else message)


class ProgramFileError(ProgramError):
    """The files of a program break a rule, such as a link, or a module that hides one of Python's."""


class ProgramContractError(ProgramError):
    """A program imports, but does not keep the contract of `updater.py` or `analysis.py`."""


class BackendError(OpalError):
    """An agent gave no answer."""


class BackendUnavailableError(BackendError):
    """The agent cannot be asked now (login, limits, network), perhaps later."""


class BackendFailedError(BackendError):
    """The turn failed on its own (crash, time limit); its edits never apply."""


class RunFolderError(OpalError):
    """A folder is no run, is damaged, or belongs to somebody else."""


def _shown(value: object) -> str:
    """`repr(value)`, cut to what fits on a line; an object whose `repr` raises is named by its type."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 120 else text[:117] + "..."
