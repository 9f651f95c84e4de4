// Elements from data. Texts only ever become text nodes, so that no label can bring markup or a script with it.

/** An element with properties (`class`, `for` and `aria-…` are attributes) and children: elements, texts, or null for none. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key in made && !key.includes("-")) made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** A heading that gets the focus when what stands below it is new. */
export function newHeading(...text) {
  return element("h2", { tabIndex: -1 }, ...text);
}

export function button(text, act, kind = "plain") {
  return element("button", { type: "button", class: kind, onclick: act }, text);
}
