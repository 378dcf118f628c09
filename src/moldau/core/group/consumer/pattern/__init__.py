"""Regular expressions of subscriptions, in RE2's syntax and with RE2's promise: matching takes time linear in the text.

Expressions come from peers, so nothing that backtracks may run them: Python's `re` can be made to think for years
about a topic name. Here an expression becomes a small automaton (`program.py`), and names are run through it one
character at a time (`matcher.py`). What RE2 refuses because no automaton can do it (backreferences, lookaround) is
refused here too.
"""

from __future__ import annotations

from moldau.core.group.consumer.pattern.matcher import PatternTooCostly, TopicPattern
from moldau.core.group.consumer.pattern.syntax import PatternError

__all__ = ["PatternError", "PatternTooCostly", "TopicPattern"]
