"""Pure: what `forked` is told, and what its output says."""

import json
from collections.abc import Iterable, Iterator, Sequence

from engine_matrix import forked, serving, variants, workload
from engine_matrix.variants import Variant
from engine_matrix.workload import Result


def asked(compared: Sequence[Variant], target: str, drafter: str, *, tokens: int, together: bool = False) -> str:
    """Its one argument; `together` adds the prompts that are asked at once."""
    return json.dumps(
        {
            "settings": serving.settings(target, drafter),
            "variants": [
                {"name": v.name, "patches": sorted(v.patches), "environment": dict(variants.environment(v))}
                for v in compared
            ],
            "prompts": [
                {"prompt": prompt, **({"cache_salt": "none"} if at == workload.UNCACHED else {})}
                for at, prompt in enumerate(workload.ALONE)
            ],
            "together": [{"prompt": prompt} for prompt in workload.TOGETHER if together],
            "tokens": tokens,
            "seed": workload.SEED,
        }
    )


def results(said: Iterable[str]) -> Iterator[tuple[str, Result]]:
    """Each variant's name and result, as soon as its line is there."""
    for line in said:
        if line.startswith(forked.SAID):
            found = json.loads(line.removeprefix(forked.SAID))
            result = Result(tokens=found["tokens"], cached=found["cached"])
            workload.counters(result, found["metrics"])
            yield found["variant"], result
