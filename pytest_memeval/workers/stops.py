"""How workers hear that the run is to stop: xdist's own word for it lets them finish all that they were given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: What is sent to a worker that is to begin no case any more; one that does not know it takes no notice.
STOP_COMMAND = "memeval_stop"


def interactor_of(config: Any) -> Any:
    """The part of a worker that talks with the controller; ``None`` in any other process."""
    plugins = config.pluginmanager.get_plugins()
    return next((plugin for plugin in plugins if type(plugin).__name__ == "WorkerInteractor"), None)


def hear(worker: Any, stop: Callable[[], None]) -> None:
    """Have the worker call ``stop`` when it is told so, in xdist's own thread, whatever the main one is at."""
    handle = worker.handle_command

    def handle_command(command: Any) -> None:
        if isinstance(command, tuple) and command[0] == STOP_COMMAND:
            stop()
        else:
            handle(command)

    worker.handle_command = handle_command
