"""The page of a plan as a picture: five questions at a school, a thousand people, a total ε of 2.

Drawn by the system's Chromium, 1280 pixels wide. Seconds to run.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright
from writing import RESULTS

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ASKED = ("theft", "drugs", "bullied", "hit someone", "cheated")
# What fits under the heading without scrolling.
SIZE = {"width": 1280, "height": 900}


def main() -> None:
    attributes = [{"name": name, "categories": ["no", "yes"]} for name in ASKED]
    with TemporaryDirectory() as folder:
        spec = Path(folder) / "school.json"
        spec.write_text(json.dumps({"title": "A survey at our school", "attributes": attributes}), encoding="utf-8")
        draw(spec)


def draw(spec: Path) -> None:
    call = [sys.executable, "-m", "optrr", "plan", str(spec), "--total-epsilon", "2", "--n", "1000", "--no-browser"]
    served = subprocess.Popen(call, stdout=subprocess.PIPE, text=True)
    assert served.stdout is not None
    address = next(said[0] for line in served.stdout if (said := re.search(r"http://\S+", line)))
    program = next(path for name in BROWSERS if (path := shutil.which(name)))
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE, color_scheme="light")
            page.goto(address)
            # when the curve is whole, nothing is said of it any more
            page.get_by_text("Exact numbers at this ε.", exact=True).wait_for(timeout=120_000)
            page.screenshot(path=RESULTS / "plan_page.png")
            browser.close()
    finally:
        served.terminate()
        served.wait()


if __name__ == "__main__":
    main()
