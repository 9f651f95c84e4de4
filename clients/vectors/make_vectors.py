"""Make the test vectors of ``docs/deployment-format.md``: `python clients/vectors/make_vectors.py`.

The streams are chosen while the reference walks: a word is often the threshold that it is compared with, one less, one
more, or that with its bytes turned around; a number often stands at the border of what is refused. So an implementation
with another order of bytes, a threshold off by one, a remainder without refusal, or bytes used twice gives another
record, or takes another number of bytes, in some case.
"""

from __future__ import annotations

import copy
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from asked import ASKED, asked_of  # noqa: E402
from laws import LAWS, law_of, tried  # noqa: E402
from reference import Bytes, Source, answered, randomized, thresholds, tried_in_turn  # noqa: E402
from refusals import refused_files, refused_questions, refused_records, refused_trials  # noqa: E402

from optrr.core.domain.domain import Attribute, Domain  # noqa: E402
from optrr.core.mechanisms.mechanism import Mechanism  # noqa: E402
from optrr.devices.deployment_file import DeployedTrials, DeploymentFile, canonical, digest_of  # noqa: E402
from optrr.devices.export import deployment_of  # noqa: E402
from optrr_solvers.laws.trials import trials_of  # noqa: E402

CASES = 16
TRIALS = "trials-ball"
# Cases for each kind of threshold that show it to be off by one, and how many streams are tried for them.
_TELLING, _TRIES = 3, 50_000
# Labels that need care: missing, quotes, control characters, beyond 16 bits, what JavaScript once did not take as text.
_ODD = ("no", None, 'quoted "text" \\', "line\nbreak\x1f\x7f", "münchen", "\U0001f600", "\u2028", "")


def domain_for(sizes: list[int]) -> Domain:
    """Attributes of these sizes; the first few categories of every second one are odd."""
    attributes = []
    for i, r in enumerate(sizes):
        odd = _ODD[: r if i % 2 else 0]
        attributes.append(Attribute(f"a{i}" if i else "Größe", (*odd, *(str(k) for k in range(len(odd), r)))))
    return Domain(tuple(attributes))


def content_of(name: str) -> dict[str, Any]:
    """The JSON object of the deployment of a law, or of questions, the same whatever version of optrr writes it."""
    if name in ASKED:
        made: DeploymentFile = asked_of(name, domain_for)
    elif name == TRIALS:
        ball = tried(np.random.default_rng(9))
        mechanism, trials = Mechanism(domain_for(ball.sizes.tolist()), ball), trials_of(ball)
        assert trials is not None
        made = DeployedTrials.of(mechanism.domain, trials, mechanism.digest.partition(":")[2], "optrr")
    else:
        law = law_of(name)
        made = deployment_of(Mechanism(domain_for(law.sizes.tolist()), law))
    content = made.content() | {"software": "optrr"}
    return content | {"digest": digest_of(content)}


class Chosen:
    """A source that chooses awkward bytes and remembers them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.taken = bytearray()

    def word(self, bits: int, compared: list[int], others: list[int]) -> int:
        """Near one of the numbers that it is compared with, between that and another state's, or anything."""
        n, rng = bits // 8, self._rng
        a = compared[int(rng.integers(len(compared)))] if compared else 0
        turned = int.from_bytes(a.to_bytes(n, "big"), "little")
        between = (a + (_one_of(rng, others) if others else 0)) // 2
        plain = [int.from_bytes(rng.bytes(n), "big") for _ in range(4)]
        w = _one_of(rng, [a, a, max(a, 1) - 1, min(a + 1, (1 << bits) - 1), turned, between, between, *plain])
        self.taken += w.to_bytes(n, "big")
        return w

    def below(self, n: int, size: int = 4) -> int:
        """At the border of what is refused, refused some times before, or anything."""
        if n == 1:
            return 0
        full = 1 << 8 * size
        limit = full - full % n
        refused = [x for x in (limit, full - 1) if limit <= x < full]
        while refused and self._rng.random() < 0.3:
            self.taken += _one_of(self._rng, refused).to_bytes(size, "big")
        w = _one_of(self._rng, [limit - 1, 0, *(int(x) for x in self._rng.integers(0, limit, 4, dtype=np.uint64))])
        self.taken += w.to_bytes(size, "big")
        return w % n


def _one_of(rng: np.random.Generator, values: list[int]) -> int:
    return values[int(rng.integers(len(values)))]


def case_of(content: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """One stream, exactly as long as what is taken, with a record and what comes out of it."""
    labels = [a["categories"] for a in content["attributes"]]
    codes = [int(rng.integers(len(x))) for x in labels]
    source = Chosen(rng)
    out = drawn(content, codes, source)
    record = [x[c] for x, c in zip(labels, codes, strict=True)]
    return {"bytes": source.taken.hex(), "record": record, "randomized": out}


def drawn(content: dict[str, Any], codes: list[int], source: Source) -> Any:
    """What comes out of a record: randomized labels, or an answer to a question."""
    if "questions" in content:
        return answered(content, codes, source)
    labels, walk = (
        [a["categories"] for a in content["attributes"]],
        tried_in_turn if "trials" in content else randomized,
    )
    return [x[c] for x, c in zip(labels, walk(content, codes, source), strict=True)]


def telling_cases(content: dict[str, Any], rng: np.random.Generator, key: str) -> list[dict[str, Any]]:
    """Cases that come out otherwise where every threshold of one kind is too high by one."""
    raised = copy.deepcopy(content)
    for layer in holders(raised):
        if layer.get(key):
            bits = 32 if key == "acceptance" else content["bits"]
            layer[key] = "".join(f"{x + 1:0{bits // 4}x}" for x in thresholds(layer[key], bits))
    labels = [a["categories"] for a in content["attributes"]]
    out = []
    for _ in range(_TRIES):
        case = case_of(content, rng)
        codes = [x.index(v) for x, v in zip(labels, case["record"], strict=True)]
        stream = io.BytesIO(bytes.fromhex(case["bytes"]))
        # another question may take more bytes than there are
        if drawn(raised, codes, Bytes(lambda n, stream=stream: stream.read(n).ljust(n, b"\0"))) != case["randomized"]:
            out.append(case)
        if len(out) == _TELLING:
            return out
    raise AssertionError(f"no stream shows that {key} is too high by one")


def holders(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of a file that thresholds stand in."""
    if "trials" in content:
        return [content["trials"], *content["trials"]["balls"]]
    return content["layers"] if "layers" in content else [content, *content["questions"]]


def vectors_of(name: str) -> dict[str, Any]:
    """The content of one vector file."""
    content = content_of(name)
    rng = np.random.default_rng(len(name))
    cases = [case_of(content, rng) for _ in range(CASES)]
    for key in ("threshold", "second_threshold", "ends", "thresholds", "second_thresholds", "acceptance", "uniform"):
        if any(holder.get(key) for holder in holders(content)):
            cases += telling_cases(content, rng, key)
    about = ({**LAWS, **ASKED, TRIALS: tried}[name].__doc__ or "").strip()
    return {"about": about, "deployment": canonical(content).decode(), "cases": cases}


def write(name: str, value: dict[str, Any]) -> None:
    """A JSON file beside this script, one line for every list entry's parts."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    (HERE / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Write all vector files."""
    for name in (*LAWS, *ASKED, TRIALS):
        write(name, vectors_of(name))
    base = content_of("small")
    files = refused_files(base) + refused_questions(content_of("questions-small"))
    files += refused_trials(content_of(TRIALS))
    write("refused-files", {"about": "A client refuses every one of these files.", "files": files})
    write("refused-records", refused_records(base))


if __name__ == "__main__":
    main()
