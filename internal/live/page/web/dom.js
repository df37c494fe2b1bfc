// Makes and updates elements. Text from gateways becomes text nodes, never markup.

// el makes an element. Attributes that are functions listen to events; false and undefined leave one out.
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else if (value !== false && value !== undefined) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// put sets the text of an element, if it is another one: a text that stays can be selected and read.
export function put(element, text) {
  const next = text === undefined || text === null ? "" : String(text);
  if (element.textContent !== next) {
    element.textContent = next;
  }
}

// each keeps one child of a parent for each item, in the items' order. A child keeps its element as long as an item has
// its key; of items with the same key each has its own. make(item) returns a view: an object with an element and
// update(item).
export function each(parent, views, items, keyOf, make) {
  const left = new Map(views);
  views.clear();
  let place = parent.firstChild;
  for (const item of items) {
    let key = keyOf(item);
    while (views.has(key)) {
      key += "'";
    }
    const view = left.get(key) ?? make(item);
    left.delete(key);
    views.set(key, view);
    if (view.element === place) {
      place = place.nextSibling;
    } else {
      parent.insertBefore(view.element, place);
    }
    view.update(item);
  }
  for (const view of left.values()) {
    view.element.remove();
  }
}

// visible shows or hides an element.
export function visible(element, yes) {
  element.hidden = !yes;
}

// remembered reads a setting that was kept, and keep keeps one. Without a place to keep it there is none.
export function remembered(name) {
  try {
    return localStorage.getItem("warmgate." + name) ?? "";
  } catch {
    return "";
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem("warmgate." + name, value);
  } catch {
    // The setting lasts as long as the page.
  }
}
