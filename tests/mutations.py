"""Random changes of JSON files, from the last bit to a missing key, for tests of what verification lets through."""

import copy
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Content = dict[str, Any]
_LARGEST = float(np.finfo(np.float64).max)
# A text to another one.
Texts = Callable[[str, np.random.Generator], str]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where every number, text, list and object of some JSON is; the whole is left out."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    own = [path] if path else []
    return own + [p for key, x in inner for p in places(x, (*path, key))]


def mutated(content: Content, rng: np.random.Generator, texts: Texts) -> Content:
    """One to three changes at random places."""
    out = copy.deepcopy(content)
    for _ in range(int(rng.integers(1, 4))):
        all_places = places(out)
        path = all_places[int(rng.integers(len(all_places)))]
        holder = out
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = _changed(holder[path[-1]], rng, texts)
        if rng.random() < 0.05:
            del holder[path[-1]]
    return out


def _changed(value: Any, rng: np.random.Generator, texts: Texts) -> Any:
    if isinstance(value, bool) or value is None:
        return rng.choice([0.5, 1e308]).item() if value is None else not value
    if isinstance(value, float) or (isinstance(value, int) and rng.random() < 0.5):
        factor = float(1 + rng.choice([-1, 1]) * 10.0 ** rng.uniform(-15, 1))
        chosen = rng.choice([value * factor, -value, 0.0, 1e308, 1e-308, 1e3, value * 2, value / 2])
        # JSON has no infinity
        return float(np.clip(chosen, -_LARGEST, _LARGEST))
    if isinstance(value, int):
        return int(rng.choice([value + 1, value - 1, -value, 0, value * 256, 1 << 40]))
    if isinstance(value, str):
        return texts(value, rng)
    if isinstance(value, list):
        order = rng.permutation(len(value)).tolist()
        return [[value[k] for k in order], value * 2, value[:-1], value * 600, []][int(rng.integers(5))]
    return {**value, str(rng.choice(["colour", "epsilon", "kind"])): 1.0}


@dataclass
class Cost:
    """What one step took: seconds of the processor, which no other work on the machine adds to, also of processes that it
    started and that have ended; and bytes of this one at its highest above those before (0 where unknown).
    """

    processor_seconds: float = 0.0
    memory: int = 0


@contextmanager
def measured() -> Iterator[Cost]:
    """The cost of a block, known when it ends."""
    cost = Cost()
    peaks = Path("/proc/self/clear_refs")
    before = resident("VmRSS")
    if peaks.exists():
        peaks.write_text("5")  # starts the highest resident size anew
    started = os.times()
    yield cost
    ended = os.times()
    cost.processor_seconds = sum(ended[:4]) - sum(started[:4])
    cost.memory = resident("VmHWM") - before


def resident(name: str) -> int:
    """Bytes of this process by the system's name for them: VmRSS now, VmHWM at its highest; 0 where there is no such file."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    line = next(x for x in status.read_text().splitlines() if x.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def cost_of_command(*arguments: str) -> tuple[int, str, Cost]:
    """Exit code, what was said, and the cost of an optrr command on one core, its start and all its processes included."""
    program = [sys.executable, "-c", "from optrr.cli.main import main; main()", *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        process = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    finally:
        os.sched_setaffinity(0, cores)
    memory = 0
    while process.poll() is None:
        memory = max(memory, _resident_of_all(process.pid))
        time.sleep(0.02)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    said = process.stderr.read() if process.stderr is not None else ""
    return process.returncode, said, Cost(seconds, memory)


def _resident_of_all(process: int) -> int:
    """Bytes of a process and of those that it started; 0 where it has ended."""
    own = Path(f"/proc/{process}")
    try:
        pages = int((own / "statm").read_text().split()[1])
        started = (own / "task" / str(process) / "children").read_text().split()
    except OSError:
        return 0
    return pages * resource.getpagesize() + sum(_resident_of_all(int(each)) for each in started)
