"""The constants of the method. A plan names the version it was made for; a change to any of them is a new version."""

from typing import Final

GATES_VERSION: Final = 1

# --- What counts ------------------------------------------------------------------------------------------------------
WEIGHT_SHARE: Final = 0.7
"""A window is valid for a pod if its valid batch buckets carry this share of the weight."""

KEPT_SHARE: Final = 0.8
"""A pod counts if this share of the elapsed windows is kept."""

ARM_SHARE: Final = 0.75
"""An arm can be compared if this share of its pods counts."""

BUCKET_SHARE: Final = 0.5
"""A pod counts in the guard of one batch bucket if it has this share of the elapsed windows there."""

REFERENCE_SHARE: Final = 0.5
REFERENCE_PODS: Final = 2
"""A cell has a reference if at least half of the stable pods, and at least two, have it."""

SMALLEST: Final = 1e-100
LARGEST: Final = 1e15
"""Means and counts beyond which a number is no measurement."""

LEAST_ERROR: Final = 1e-9
"""Pods that agree better than this were not measured: the same numbers were given out for all of them."""

# --- Control ----------------------------------------------------------------------------------------------------------
MAD_TO_SD: Final = 1.4826
"""Standard deviation of normal values with a median absolute deviation of 1."""

EXCLUDED_MADS: Final = 6.0
EXCLUDED_FLOOR: Final = 0.04
"""A window is dropped where its control is further from the tray's median than both."""

DRIFT_FLOOR: Final = 0.01
"""Least difference of the arms' controls since the swap that is called drift; half the margin, if that is larger."""

BETA_GAIN: Final = 0.9
"""The control is subtracted if that brings the spread between pods below this share."""

# --- Catastrophe ------------------------------------------------------------------------------------------------------
CATASTROPHE_RUN: Final = 3
CATASTROPHE_FLOOR: Final = 0.223
"""100 x ln: 22.3%, a factor of 1.25."""

CATASTROPHE_SDS: Final = 8.0
CATASTROPHE_CONTROL: Final = 1.5
"""A slower control excuses this multiple of itself."""

ACCEPTANCE_SDS: Final = 5.0
ACCEPTANCE_RUNNING: Final = 4.0
"""Requests running a pod below which a window's acceptance says too little to stop by."""

# --- Evidence ---------------------------------------------------------------------------------------------------------
OWN_VARIANCE_PODS: Final = 5
"""Stable pods from which the run's own variance will do."""

VARIANCE_FLOOR: Final = 0.7
"""Part of the calibrated variance below which a run's own is taken for luck."""

HISTORY_STARTS: Final = 20
"""Pod starts that a registered variance needs."""

TRAY_STARTS: Final = 8
"""Restarts behind the spread from start to start that a tray's baseline needs."""

HALVES_LEVEL: Final = 0.01
LOSS_LEVEL: Final = 0.01
OVERLAP: Final = 0.5
"""Least overlap of the arms' step shares over batch buckets."""

FEWEST_REQUESTS: Final = 600

BUCKET_ALPHA: Final = 0.2
"""Share of Fail's error that the guards of single batch buckets take, where there is more than one."""

BUCKET_DOUBT: Final = 0.01
"""Level, at a single look, at which one batch bucket keeps the whole from passing."""

GUARD_ALPHA: Final = 0.2
"""Share of Fail's error that early steps, which only guard, take."""

# --- Traffic: ours, wide enough for an honest split, far below what a wrong one does ----------------------------------
LOAD_RATIO: Final = 1.5
"""Requests a pod of the arms may differ by this factor from what the weights ask for."""

PROMPT_RATIO: Final = 1.25
"""Median prompt lengths of the arms may differ by this factor."""

PREFIX_DIFFERENCE: Final = 0.1
"""Shares of prompt tokens found in the prefix cache may differ by this much."""

STEPS_RATIO: Final = 1.25
"""Steps for a request that the gateway sent may differ by this factor."""

DROPPED_SHARE: Final = 0.01
"""Samples that the telemetry drops, as a share of the steps, may differ by this much."""

P99_MARGINS: Final = ((4, 0.10), (1, 0.15))
"""Least margin of a p99, from so many candidate pods on: buckets blur it more than a small change moves it."""
