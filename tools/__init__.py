"""What keeps the book true: text twins, outputs, the common first cell, the gates, JupyterLab in a browser."""
