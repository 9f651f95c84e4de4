"""How long users wait: typical jobs, each in a process of its own, beside other libraries that do the same.

A job runs in turns with its peers, and the medians of the rounds are written, in seconds of the processor: a busy machine does
not change them, and nearly all of these jobs use one thread. A command is a whole process, start-up included; a call of the
library is the call alone. With the environment variable BEFORE, the folder of another checkout, that code runs in the same
turns. A peer that is not installed is stated so. Writes waits.csv and waits.md; a quarter of an hour.
"""

import gzip
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

SEED = 47
CHECKOUT = Path(__file__).resolve().parent.parent
ROUNDS, TIMEOUT = 3, 400
RECORDS, COLUMNS = 5_000_000, 9
# The longest jobs, which are run once.
ONCE = ("allocate: all pairs of 100 attributes", "design of 10^6 attributes", "planner: curve, pairs of Adult")


def used() -> float:
    """Seconds of the processor so far, finished children included."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)


def timed(call: Callable[[], Any], said: Callable[[Any], str] = lambda _: "") -> None:
    """Print seconds of a call, and what is said of its result."""
    before = used()
    result = call()
    print(json.dumps({"seconds": used() - before, "said": said(result)}))


def command(*words: str) -> None:
    """Time a command of this project as a whole process."""
    process([sys.executable, "-m", "optrr", *words])


def process(words: list[str]) -> None:
    """Time a whole process."""
    timed(lambda: subprocess.run(words, check=True, stdout=subprocess.DEVNULL))


def python(code: str) -> None:
    """Time a whole process that runs this code."""
    process([sys.executable, "-c", code])


def different(m: int) -> tuple[dict[str, int], np.ndarray]:
    """Numbers of categories by name, and ε_i, of m different attributes."""
    rng = np.random.default_rng([SEED, m])
    sizes, epsilons = rng.integers(2, 10, m), rng.uniform(0.3, 1.5, m)
    return {f"x{i}": r for i, r in enumerate(sizes.tolist())}, epsilons


def pairs(m: int) -> None:
    """Time a design that keeps pairs as visible as under Kronecker."""
    import optrr

    domain, epsilons = different(m)
    constraints = optrr.Constraints(preserve="pairs")
    timed(lambda: optrr.design(domain, epsilons, constraints=constraints), bracket)


def design(m: int) -> None:
    """Time a design of m different attributes."""
    import optrr

    domain, epsilons = different(m)
    timed(lambda: optrr.design(domain, epsilons), bracket)


def bracket(made: Any) -> str:
    """State a design's total, and how far it may be above the optimum."""
    return f"total {made.epsilon:.6g}, {(made.epsilon / made.lower_bound - 1) * 100:.2g} % over the bound"


def export(m: int) -> None:
    """Time the deployment of a design for devices."""
    import optrr

    domain, epsilons = different(m)
    made, path = optrr.design(domain, epsilons), Path(tempfile.mkdtemp(dir="."), "device.json")

    def said(exported: Any) -> str:
        size = len(gzip.compress(path.read_bytes())) / 1000
        return f"{exported.summary()['epsilon']:.4g} nats of a design's {made.epsilon:.4g}, {size:.3g} kB"

    timed(lambda: optrr.export(made, path), said)


def allocate(m: int | None = None) -> None:
    """Time the most accurate protocol for all pairs, of Adult or of m different attributes."""
    import optrr
    from optrr.core.domain.datasets import adult_domain

    domain = adult_domain() if m is None else different(m)[0]
    timed(lambda: optrr.allocate(domain, 1.0, workload="pairs"), lambda made: f"error {made.error:.7g} / n")


def planner(workload: str, curve: bool) -> None:
    """Time the page's first exact numbers for Adult, or its whole curve."""
    from optrr.core.design import Specification
    from optrr.core.domain.datasets import adult_domain
    from optrr.planner.question import Question
    from optrr.planner.work import PlanWork

    work = PlanWork()
    question = Question.of(Specification.of(adult_domain()), workload, total=1.7)

    def wait() -> None:
        while (known := work.ask(question)) and not (known.done == known.of if curve else known.points):
            time.sleep(0.01)

    timed(wait)
    work.close()


def strata(hypothesis: str) -> None:
    """Time a test within ten strata, of reports in a data frame."""
    import pandas as pd

    import optrr

    rng = np.random.default_rng(SEED)
    domain = {"a": list("01"), "b": list("01"), "c": list("0123456789")}
    true = pd.DataFrame({name: np.array(v)[rng.integers(0, len(v), 10**6)] for name, v in domain.items()})
    made = optrr.design(domain, 1.5)
    released = made.randomize(true)
    timed(lambda: optrr.reports(released, made).test("a", "b", given="c", hypothesis=hypothesis))


def strata_statsmodels() -> None:
    """Time the same test of true records."""
    import pandas as pd
    from statsmodels.stats.contingency_tables import StratifiedTable

    rng = np.random.default_rng(SEED)
    true = pd.DataFrame({name: rng.integers(0, size, 10**6) for name, size in zip("abc", (2, 2, 10), strict=True)})
    timed(lambda: StratifiedTable.from_data("a", "b", "c", true).test_null_odds())


def input_files() -> None:
    """Write records.parquet and records.csv with a design, and what is released of them."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    rng = np.random.default_rng(SEED)
    columns, attributes = {}, []
    for i in range(COLUMNS):
        labels = [f"v{v}" for v in range(2 + i % 5)]
        codes = pa.array(rng.integers(0, len(labels), RECORDS).astype(np.int8))
        columns[f"x{i}"] = pa.DictionaryArray.from_arrays(codes, pa.array(labels)).cast(pa.string())
        attributes.append({"name": f"x{i}", "categories": labels, "epsilon": 1.0})
    table = pa.table(columns)
    pa.parquet.write_table(table, "records.parquet")
    pa.csv.write_csv(table, "records.csv")
    Path("spec.json").write_text(json.dumps({"attributes": attributes}), encoding="utf-8")
    for words in (
        "design spec.json -o design.json",
        "randomize records.parquet --design design.json -o released.parquet",
    ):
        subprocess.run([sys.executable, "-m", "optrr", *words.split()], check=True, stdout=subprocess.DEVNULL)


ARROW = f"import pyarrow as pa, pyarrow.csv, pyarrow.parquet as pq; names = [f'x{{i}}' for i in range({COLUMNS})]\n"
ARROW_PARQUET = ARROW + "pq.write_table(pq.read_table('records.parquet', read_dictionary=names), 'out.parquet')"
ARROW_CSV = (
    ARROW
    + """
with pa.csv.open_csv('records.csv') as records, pa.csv.CSVWriter('out.csv', records.schema) as out:
    for batch in records:
        out.write(batch)
"""
)
POLARS = "import polars; polars.read_{0}('records.{0}').write_{0}('out.{0}')"
DUCKDB = "import duckdb; print(duckdb.sql(\"select x0, count(*) from 'released.parquet' group by 1\").fetchall())"

# A job's name, then what runs: the project's own first, then peers by name.
JOBS: dict[str, dict[str, Callable[[], None]]] = {
    "allocate: all pairs of Adult": {"optrr": allocate},
    "allocate: all pairs of 100 attributes": {"optrr": partial(allocate, 100)},
    "planner: first numbers, marginals of Adult": {"optrr": partial(planner, "marginals", False)},
    "planner: first numbers, pairs of Adult": {"optrr": partial(planner, "pairs", False)},
    "planner: curve, pairs of Adult": {"optrr": partial(planner, "pairs", True)},
    **{f"design with pairs kept, m = {m}": {"optrr": partial(pairs, m)} for m in (16, 20, 30, 100)},
    **{f"export for devices, m = {m}": {"optrr": partial(export, m)} for m in (100, 1000)},
    "randomize Parquet, 5 million × 9": {
        "optrr": partial(command, "randomize", "records.parquet", "--design", "design.json", "-o", "out.parquet"),
        "pyarrow": partial(python, ARROW_PARQUET),
        "polars": partial(python, POLARS.format("parquet")),
    },
    "randomize CSV, 5 million × 9": {
        "optrr": partial(command, "randomize", "records.csv", "--design", "design.json", "-o", "out.csv"),
        "pyarrow": partial(python, ARROW_CSV),
        "polars": partial(python, POLARS.format("csv")),
    },
    "estimate a table, Parquet of 5 million": {
        "optrr": partial(command, "estimate", "released.parquet", "--attributes", "x0", "--design", "design.json"),
        "duckdb": partial(python, DUCKDB),
    },
    "design of 10^6 attributes": {"optrr": partial(design, 10**6)},
    "test within 10 strata, 10^6 reports": {
        "optrr": partial(strata, "common-association"),
        "statsmodels": strata_statsmodels,
    },
}


def run(job: str, who: str, code: Path) -> dict[str, Any]:
    """Run a job in a process of its own with the code of a checkout."""
    peer = who not in ("optrr", "before")
    if peer and importlib.util.find_spec(who) is None:
        return {"said": "not installed"}
    one_thread = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    paths = os.pathsep.join(map(str, (code, code / "solvers")))
    environment = {k: v for k, v in os.environ.items() if k not in one_thread} | {"PYTHONPATH": paths}
    words = [sys.executable, str(Path(__file__).resolve()), job, who if peer else "optrr"]
    try:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    except subprocess.TimeoutExpired:
        return {"said": f"no answer in {TIMEOUT} s"}
    except subprocess.CalledProcessError as error:
        return {"said": error.stderr.strip().splitlines()[-1]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def measure(job: str, runs: dict[str, Callable[[], None]]) -> list[dict[str, object]]:
    """Rows of a job: of this checkout, of the one before, and of peers."""
    codes = {"optrr": CHECKOUT} | ({"before": Path(os.environ["BEFORE"])} if "BEFORE" in os.environ else {})
    codes |= {peer: CHECKOUT for peer in runs if peer != "optrr"}
    found: dict[str, list[dict[str, Any]]] = {who: [] for who in codes}
    for _ in range(1 if job in ONCE else ROUNDS):
        for who, code in codes.items():
            found[who].append(run(job, who, code))
    rows = []
    for who, all_rounds in found.items():
        times = [each["seconds"] for each in all_rounds if "seconds" in each]
        row: dict[str, object] = {
            "job": job,
            "code": who,
            "seconds": round(statistics.median(times), 2) if times else "",
        }
        rows.append(row | {"result": all_rounds[0]["said"]})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    if len(sys.argv) == 3:
        JOBS[sys.argv[1]][sys.argv[2]]()
        return
    from writing import markdown, write_csv, write_text

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        input_files()
        rows = [row for job, runs in JOBS.items() for row in measure(job, runs)]
    write_csv("waits.csv", rows)
    write_text(
        "waits.md",
        "# How long users wait",
        f"Seconds of the processor, medians of {ROUNDS} runs in turns. Commands include the start of the program. Peers do "
        "the part of the job that they offer: they read and write the files without randomizing, count without estimating, "
        "and test true records.",
        markdown(rows),
    )


if __name__ == "__main__":
    main()
