"""Where nbgrader finds things, and what it puts in the place of an answer. See CONTRIBUTING.md and TEACHING.md."""

c = get_config()  # noqa: F821 - whoever loads this file provides it; an imported one would be another
c.CourseDirectory.course_id = "attention"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.CourseDirectory.submitted_directory = "grading/submitted"
c.CourseDirectory.autograded_directory = "grading/autograded"
c.CourseDirectory.feedback_directory = "grading/feedback"
c.CourseDirectory.db_url = "sqlite:///grading/gradebook.db"
# nbgrader copies whatever stands beside a notebook: without this the text twins, answers and all, would be released.
c.CourseDirectory.ignore = [".ipynb_checkpoints", "__pycache__", "*.pyc", "*.md"]
c.ClearSolutions.code_stub = {"python": "# Your code here\nraise NotImplementedError()"}
c.ClearSolutions.text_stub = "*Your answer here.*"
