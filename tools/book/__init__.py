"""What keeps the book true: text and notebooks in pairs, outputs, rules for chapters, exercises, JupyterLab."""
