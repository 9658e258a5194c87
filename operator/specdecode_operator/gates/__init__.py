"""The judge: a registered plan and samples in, a verdict out.

Data goes one way: `windows` turns raw scrapes into increments (samples), `intake` sorts samples into arrays and finds
what is unfit, `scores` compares each pod with the stable pods of the same window and batch bucket, `estimate` compares
the arms with the pod as the unit, `looks` says how much error each look may spend, `course` follows a gate through all
its looks, `judge` puts gates together, `verdict` says it. `calibrate` and `power` answer, before anything moves, what a
run could find; `register` puts that and what the object asks for into a `run`: a `plan` for each of its steps,
registered before the first sample.

The array functions take any number of leading dimensions, so that the decision benchmark runs this code, not a copy.

No I/O and no clock. What is unfit is NaN until the end, never zero: an empty window must not look like "no difference".
"""
