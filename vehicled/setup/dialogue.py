"""Questions in a terminal: asked again until the answer is plausible."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from vehicled.errors import SettingsError, UsageError
from vehicled.reading.settings import loads
from vehicled.setup.answers import Answers
from vehicled.setup.questions import Question
from vehicled.setup.text import format_value

_NUMBERS = re.compile(r"[-+\d.,\seE]+")
_YES, _NO = ("y", "yes", "true"), ("n", "no", "false")
_PLACE = "x y z from the ground below the middle of the front axle: forward, left, up"
_TYRE = "as on the sidewall: 205/55 R16, 205/50-10, 18x8.50-8; or the radius: 0.23 m"
_HINTS = {
    "front_tyre": _TYRE,
    "rear_tyre": _TYRE,
    "steering": "bicycle: one angle of the road wheels, as robots have it",
    "imu_position": _PLACE,
    "gnss_antenna": f"{_PLACE}; with several antennas the first one",
}
_WHERE = re.compile(r"answer:\d+: (?:\w+: )?")


class Dialogue:
    """Answers so far, in SI units, and their origin."""

    def __init__(self, given: Answers, read: Callable[[str], str] | None, say: Callable[[str], None]) -> None:
        """`read` shows a prompt and returns a line of input; None: what is not given has its default."""
        self.known: dict[str, Any] = {}
        self.given: set[str] = set()
        self._answers = given
        self._read = read
        self.say = say
        self.asks = read is not None
        """Whether a user can be asked."""

    def ask(self, questions: Iterable[Question]) -> None:
        """Ask the questions that apply and are not answered in the file.

        Raises UsageError at the end of the input.
        """
        for question in questions:
            self._ask(question)

    def ask_again(self, questions: Iterable[Question]) -> None:
        """Ask again, with the answers so far as defaults."""
        before, kept = dict(self.known), set(self.given)
        for question in questions:
            self._ask(question, before, kept)

    def confirm(self, text: str, default: bool) -> bool:
        """Ask a yes/no question; returns the default if nothing is asked."""
        while self._read is not None:
            typed = self._read(f"{text} [{format_value(default, '')}]: ").strip().lower()
            if typed in (*_YES, *_NO, ""):
                return default if not typed else typed in _YES
            self.say(f"  expected yes or no, got {typed!r}")
        return default

    def ask_text(self, text: str, default: str, check: Callable[[str], Any]) -> Any:
        """Result of `check` for an answer; asked again while it raises UsageError. None for an empty answer."""
        while True:
            typed = "" if self._read is None else self._read(f"{text} [{default or 'none'}]: ").strip()
            chosen = typed or default
            if chosen in ("", "none"):
                return None
            try:
                return check(chosen)
            except UsageError as error:
                if self._read is None:
                    raise
                self.say(f"  {error}")

    def _ask(
        self, question: Question, before: dict[str, Any] | None = None, kept: Iterable[str] = ()
    ) -> None:
        key = question.key
        given = getattr(self._answers, key)
        self.given.discard(key)
        if given is not None and before is None:
            self.known[key] = given
            self.given.add(key)
            return
        default = before[key] if before is not None and key in kept else question.default(self.known)
        self.known[key] = default
        if self._read is None or not question.applies(self.known):
            return
        if key in kept:
            self.given.add(key)
        if before is None and key in _HINTS:
            self.say(f"  {_HINTS[key]}")
        shown = "" if default is None else f" [{format_value(default, question.unit)}]"
        while typed := self._read(f"{question.text}{shown}: ").strip():
            if default is None and typed == "none":
                return
            try:
                self.known[key] = read_answer(question, typed)
            except UsageError as error:
                self.say(f"  {error}")
            else:
                self.given.add(key)
                return


def read_answer(question: Question, typed: str) -> Any:
    """Value (SI) of an answer as typed; numbers without a unit are in the question's unit. Raises UsageError."""
    key, text = question.key, typed.strip()
    kind = Answers.__annotations__[key]
    if kind.startswith("bool"):
        if text.lower() not in (*_YES, *_NO):
            raise UsageError(f"expected yes or no, got {text!r}")
        return text.lower() in _YES
    if question.unit and _NUMBERS.fullmatch(text):
        text = f"{text} {question.unit}"
    try:
        answer = getattr(loads(f"{key}: {json.dumps(text, ensure_ascii=False)}", Answers, "answer"), key)
    except SettingsError as error:
        raise UsageError(_WHERE.sub("", str(error), count=1)) from None
    question.check(answer)
    return answer
