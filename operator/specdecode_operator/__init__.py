"""Operator for `SpecDecodeDeployment`: serves LLMs with speculative decoding, level-triggered, state only in objects."""
