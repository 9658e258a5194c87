"""Tests that run inside a patched engine's own interpreter, on the files that are installed there.

On a machine without that engine nothing here is collected: `images/engine-cpu` runs them, on a CPU in Triton's
interpreter; with a GPU the same tests run compiled, over the whole matrix.
"""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("vllm") else ["test_*.py"]
