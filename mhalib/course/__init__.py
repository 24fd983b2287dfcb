"""What only notebooks need: the first cell, data, short training runs, figures, and live views."""
