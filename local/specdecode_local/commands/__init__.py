"""One module per command: `add_arguments(parser)` and `run(args) -> int`. No logic of its own beyond that."""
