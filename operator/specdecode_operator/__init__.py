"""Operator for `SpecDecodeDeployment`: LLMs with speculative decoding, level-triggered, state only in objects."""
