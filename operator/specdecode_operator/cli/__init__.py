"""`kubectl-specdecode`: what people run. Files, terminals and exit codes; what is decided is decided elsewhere.

Exit codes: 0 Pass, 10 Fail, 20 Inconclusive, 30 Invalid, 64 usage (what was given can't be read), 70 internal error.
"""
