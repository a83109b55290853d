"""How a process takes interrupts: for certain, and where nothing is left locked for ever.

Python raises an interrupt wherever the main thread happens to be. Two places are bad ones. While an object is being
freed, in a ``__del__`` or the callback of a weak reference, it is dropped, and the run goes on as if nobody had pressed
anything. And where a lock has just been taken by Python code, such as that of ``queue``, it stays taken: whoever waits
for it, the main thread too, waits for ever.
"""

from __future__ import annotations

import _thread
import atexit
import concurrent.futures._base
import contextlib
import logging
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from pytest_memeval.left_threads import end_process

#: Seconds after which an interrupt that has not come through has been lost.
LOST_AFTER = 0.4
#: Seconds for which a process that ends, or is about to, hears of no other interrupt.
DEAF = 5.0
#: So many seconds later an interrupt is tried again that came where locks are taken, and so many times at most.
AGAIN_AFTER, AT_MOST = 0.005, 60

#: Where locks are taken and given back by code that can be interrupted in between.
_LOCKING = {module.__file__ for module in (concurrent.futures._base, contextlib, logging, queue, threading)}
_LOCKING.add(__file__)  # an interrupt during another, which came there
_LOCKING.add("<frozen importlib._bootstrap>")  # a module's lock: another import of it would wait for ever
#: Functions there that wait without holding a lock, for as long as it takes.
_WAITING = frozenset({"wait", "_wait_for_tstate_lock", "join"})
#: The functions of pytest that are its command.
_COMMANDS = frozenset({"console_main", "_console_main"})
#: xdist's way to another process: a message that is cut off spoils all that follow.
_SENDING = "execnet.gateway_base"


class Interrupts:
    """The process's handler of SIGINT, from :meth:`listen` to :meth:`leave`.

    One interrupt is enough: what the process does on its way out must not be cut off, though it hears of several, as a
    worker does from the terminal and from the controller, and a run in front of which somebody is impatient. One that
    was lost is raised again, when it is heard of once more or by :meth:`raise_lost`.

    ``lasting``: the process hears of no other to its end. Else it does after :data:`DEAF` seconds: what else is done
    there may take for ever.
    """

    def __init__(self, *, lasting: bool) -> None:
        self._lasting = lasting
        self._raised_at: float | None = None
        #: Whether what was raised last has not come through.
        self._due = False
        self._ending = False
        self._deaf_until = 0.0
        self._before: Any = None
        #: Where the main thread was when an interrupt was tried that is still to be raised, and how many tries it had.
        self._seen: tuple[FrameType, int] | None = None
        self._tries = 0
        #: The status to end with, once everything is said and the process is about to end by itself.
        self._status: int | None = None

    def listen(self) -> None:
        """From now on, in the main thread; elsewhere Python hands out no signals. An interrupt that is ignored, or has
        been given a meaning of its own, is left so."""
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if before is signal.default_int_handler:
                self._before = signal.signal(signal.SIGINT, self._hear)

    def leave(self) -> None:
        """Give the signal back to whom it was taken from."""
        if self._listens():
            signal.signal(signal.SIGINT, self._before)

    def stay(self) -> None:
        """To the end of the process, in which Python gives the signal back to the system by itself: then to nobody."""
        atexit.register(self._ignore)

    def _ignore(self) -> None:
        if self._listens():
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def has_come_through(self) -> None:
        """The session ends by an interrupt."""
        self._due = False
        if not self._lasting:
            self.listen()
            self._deaf_until = time.monotonic() + DEAF
        else:
            self._ignore()

    @contextlib.contextmanager
    def held_back(self) -> Iterator[None]:
        """Hear of none for what is nearly over and must be whole, :data:`DEAF` seconds at most."""
        before = self._deaf_until
        self.listen()
        self._deaf_until = time.monotonic() + DEAF
        try:
            yield
        finally:
            self._deaf_until = before

    def over(self, status: int) -> None:
        """The session has said all that it has to: an interrupt from now on keeps the process from nothing. What is
        still going on after :data:`DEAF` seconds is ended by one, with the status that the process was to end with.
        Nothing of that where a program called pytest, which goes on by itself."""
        if not is_pytests_own_process():
            return
        self.listen()
        self._status = status
        self._deaf_until = time.monotonic() + DEAF

    def leave_over(self) -> None:
        """Give the signal back, unless the process has nothing left to do."""
        if self._status is None:
            self.leave()

    def end(self) -> None:
        """The session ends by itself: an interrupt that is lost from now on can keep it from nothing."""
        self._ending = True

    def raise_lost(self) -> None:
        """KeyboardInterrupt if one was raised before, by which the session would have ended."""
        if self._due:
            raise KeyboardInterrupt

    def has_come_in_vain(self) -> bool:
        """Whether one came in a bad place, and is still to be raised; it has come through then. What ends the session
        before it is raised is its doing: a worker that heard of it while it was being started is gone."""
        if self._seen is None:
            return False
        self._seen, self._tries = None, 0
        self.has_come_through()
        return True

    def _listens(self) -> bool:
        # A bound method is made anew each time.
        return self._before is not None and signal.getsignal(signal.SIGINT) == self._hear

    def _hear(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        told = self._raised_at is not None and (self._ending or now - self._raised_at <= LOST_AFTER)
        if told or now < self._deaf_until:
            return
        if self._status is not None:
            end_process(self._status)
        if frame is not None and self._is_a_bad_place(frame):
            _thread.start_new_thread(_interrupt_again, ())
            return
        self._seen, self._tries = None, 0
        self._raised_at, self._due = now, True
        raise KeyboardInterrupt

    def _is_a_bad_place(self, frame: FrameType) -> bool:
        code = frame.f_code
        if code.co_filename not in _LOCKING and frame.f_globals.get("__name__") != _SENDING:
            return False
        here = (frame, frame.f_lasti)
        waits = code.co_name in _WAITING and self._seen == here
        self._seen = here
        self._tries += 1
        return not waits and self._tries <= AT_MOST


def is_pytests_own_process() -> bool:
    """Whether the command pytest called this, and no session inside of another one's test."""
    sessions, is_command = 0, False
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == "_pytest":
            sessions += frame.f_code.co_name == "wrap_session"
            is_command = is_command or frame.f_code.co_name in _COMMANDS
        frame = frame.f_back
    return is_command and sessions <= 1


def _interrupt_again() -> None:
    time.sleep(AGAIN_AFTER)
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:  # so that it is heard where the main thread waits for a lock
        main = threading.main_thread().ident
        if main is not None:
            signal.pthread_kill(main, signal.SIGINT)
