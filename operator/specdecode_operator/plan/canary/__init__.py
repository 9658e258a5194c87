"""The canary: a revision proven in steps before it takes over. Pure, as all of the planner.

Data goes one way: `asking` puts what the object asks for into what can be registered, `record` is a run as it is
written down, `runs` finds the one that is current, `requests` reads what people ask of it, `transition` takes it one
event further, `course` says what follows for slots, route and status.

The record is the run: an event first changes it, and is acted on once the change is written. So an operator that is
stopped between any two writes goes on where it was, and status only repeats what the record says.

What takes time or the network (samples, statistics) is no business of this room: it says what it wants to know
(`facts.Want`), and a later plan finds the answer.
"""
