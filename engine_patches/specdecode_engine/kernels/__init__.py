"""Triton code that patched files call.  It needs vLLM's Triton, so only patched files and tests import from here."""
