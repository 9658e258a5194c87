"""Times and counts of each decode step, from the worker that takes them to the engine's own /metrics.

layout (what there is) < increments (fixed arrays, added to in sampled steps, shipped now and then) < ring
(device events, read without waiting) < recorder (what a sampled step's hooks call) | exposition (Prometheus objects)
< frontend.  None of them imports vLLM or torch.  sampling (which steps) and ranks (which worker) < worker, which the
patched runner imports; `logger` is the plugin that vLLM loads.

recording takes step samples from a running engine's /metrics, playback gives them to an engine that has no steps.
"""
