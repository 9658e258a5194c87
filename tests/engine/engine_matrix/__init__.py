"""`make engine-matrix`: both engine lines on a CPU, stock against patched, end to end.

variants (what is run) > image (a root file system to run it in) > serving (one engine, started and ended) > workload
(what it is asked, what it said) > report (what has to hold, as a table) > kept (a file an engine, to go on from).
variants and report are pure.

forked is the quick form of serving and workload, for a pod of `make test` and for a matrix in a third of the time; what
it is told and what it prints is in quick.
"""
