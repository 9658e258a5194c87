"""The pure planner: (desired, observed, now) -> actions, status, events, when to look again.

Data goes one way: `observe` gives shape to what was read, `validate` refuses what the schema can't, `rollout` moves
slots, `traffic` weighs the route, `differs` leaves what is already right alone, `status` says it, and `plan` puts
them in order. No I/O, no clock: `now` is an argument. All state is in the object and its children, so a plan can be
made anew at any time.
"""
