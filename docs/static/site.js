// Paper is light, whatever the screen is.
const page = document.documentElement;
let screenTheme = page.dataset.theme;
addEventListener("beforeprint", () => {
  screenTheme = page.dataset.theme;
  page.dataset.theme = "light";
});
addEventListener("afterprint", () => {
  page.dataset.theme = screenTheme;
});
// What scrolls sideways can be reached by the keyboard; the theme sees to code and tables.
const reachable = () => {
  for (const box of document.querySelectorAll(".bd-article :is(figure, p):has(> img, > a > img)")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
};
addEventListener("load", reachable);
addEventListener("resize", reachable);
