"""The page of a plan as a picture: five questions at a school, a thousand people, a total ε of 2.

Drawn by the system's Chromium, 1280 pixels wide. Seconds to run.
"""

import shutil

from playwright.sync_api import sync_playwright
from writing import RESULTS

from optrr.core.design.specification import declared
from optrr.planner.app import BackgroundPage
from optrr.planner.question import Question

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ASKED = ("theft", "drugs", "bullied", "hit someone", "cheated")
# What fits under the heading without scrolling.
SIZE = {"width": 1280, "height": 900}


def main() -> None:
    attributes = [{"name": name, "categories": ["no", "yes"]} for name in ASKED]
    specification = declared({"title": "A survey at our school", "attributes": attributes})
    served = BackgroundPage(Question.of(specification, total=2.0, n=1000), lambda *_: [])
    program = next(path for name in BROWSERS if (path := shutil.which(name)))
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE, color_scheme="light")
            page.goto(served.url)
            # when the curve is whole, nothing is said of it any more
            page.get_by_text("Exact numbers at this total.", exact=True).wait_for(timeout=120_000)
            page.screenshot(path=RESULTS / "plan_page.png")
            browser.close()
    finally:
        served.close()


if __name__ == "__main__":
    main()
