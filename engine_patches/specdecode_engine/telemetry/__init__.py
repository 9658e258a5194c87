"""Times and counts of each decode step, from the worker that takes them to the engine's own /metrics.

layout (what there is) < increments (fixed arrays, added to each step, shipped at most every 100 ms) < ring (device
events, read without waiting) < recorder (what the worker's hooks call) | exposition (Prometheus objects) < frontend.
None of them imports vLLM or torch; `logger` does, and is the plugin that vLLM loads.

recording takes step samples from a running engine's /metrics, playback gives them to an engine that has no steps.
"""
