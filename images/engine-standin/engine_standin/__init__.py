"""A stand-in for the engine, named so: vLLM's endpoints, arguments, drain and metrics, without a model.

It serves where many engines are needed beside each other or an engine has to misbehave on cue: fault, rest and scale
tests. It decides nothing about tokens: their text is filler, their pace and the accepted share are settings. Whatever
is shown to be true of serving itself is shown with the real engine.
"""


def version(release: str) -> str:
    """The engine line whose behaviour is mimicked, and that this is not it."""
    return f"{release}+standin"
