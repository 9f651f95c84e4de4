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
