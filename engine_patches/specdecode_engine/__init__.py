"""What runs inside the engine: switches, attestation, telemetry, and the code that the patches of `series/` hook in.

A patch changes vLLM's files as little as it can and calls a module of this package; so what is ours can be read, typed
and tested here.  Modules that the overlay or the start of the engine needs import neither torch nor vLLM.
"""
