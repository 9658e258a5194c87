"""One module per program of the cluster: its configuration as text, its command line, and how to tell that it serves.

Nothing here starts anything; `component()` only describes.
"""
