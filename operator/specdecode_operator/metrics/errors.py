"""Why there are no samples. Who waits for data treats "there is none" and "nobody answers" apart."""


class MetricsError(Exception):
    """There are no samples. The text is for people: it names the backend and what to look at."""


class NoData(MetricsError):
    """The backend answered, and has nothing of what was asked."""


class BackendDown(MetricsError):
    """The backend gave no answer that can be used: unreachable, slow, refusing, or answering something else."""


class TooMuch(MetricsError):
    """The answer is larger than what is read at once: a smaller question would do."""
