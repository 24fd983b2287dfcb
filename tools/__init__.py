"""The course's own tools: `book` keeps it true, `grading` marks what students hand in."""
