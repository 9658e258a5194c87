"""Pure builders: a frozen revision in, one child manifest out. One file per child kind.

No I/O and no clock. A child is built only from `Frozen`, what its ControllerRevision holds, so that an operator with
different code here restarts no pod: `pod`, `args` and `revision` render a revision once, when it is first seen.
"""
