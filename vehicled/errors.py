"""The errors that a user may see, one line each; any other exception is a bug and shows its traceback."""


class VehicledError(Exception):
    """An error that the user can understand: `str(error)` is one line with its kind and place."""

    exit_status = 1


class UsageError(VehicledError):
    """Bad arguments or a bad configuration: the line names file, line or key, and what was expected."""

    exit_status = 2


class SettingsError(UsageError):
    """Mistakes in a settings file, each as one line: `file:line: key.path: what was expected, got …`.

    `str(error)` is the first of them.
    """

    def __init__(self, *mistakes: str) -> None:
        super().__init__(mistakes[0])
        self.mistakes = mistakes
        """All mistakes that were found, as far as possible in the order of the file."""


class OptionError(UsageError):
    """A bad option of a driver."""

    def __init__(self, key: str, message: str) -> None:
        """`key`: of the option, below the driver's `options`."""
        super().__init__(f"{key}: {message}")
        self.key, self.message = key, message


class RunError(VehicledError):
    """A correct request that failed."""


class NoRestError(UsageError, RunError):
    """A car that does not come to rest: by its file, or as a trial of an identification, which then goes on."""
