"""Grading: each submission is rebuilt on the released notebook, run shut in, and judged outside.

`assignment` knows places and what was released, `rebuild` takes the answers out of a submission, `sandbox` shuts a
process in, `runner` is what runs there, `session` talks to it, `judge` marks what it computed, `gradebook` writes the
marks where nbgrader looks for them, `classroom` does all of it for a class. `collect` takes downloads apart.
"""
