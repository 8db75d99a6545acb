// Makes a part of the page like a new one, changing only what differs: what has the focus keeps it, what is open stays open, what is scrolled stays scrolled.

// morph makes the children of an element like those of another, which is used up.
export function morph(element, like) {
  const known = new Map();
  for (const child of element.children) if (child.id) known.set(child.id, child);
  let at = element.firstChild;
  for (const next of [...like.childNodes]) {
    const match = next.id ? known.get(next.id) : at && !at.id && alike(at, next) ? at : null;
    if (!match || !alike(match, next)) {
      element.insertBefore(next, at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else element.insertBefore(match, at);
    become(match, next);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName;
}

function become(node, next) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.nodeValue !== next.nodeValue) node.nodeValue = next.nodeValue;
    return;
  }
  const sameMoment = node.nodeName === "TIME" && node.dateTime === next.dateTime;
  attributes(node, next);
  if (sameMoment) return; // its text is how long ago that was
  if (node.hasAttribute("data-region") && !next.firstElementChild) return; // it is sent for itself
  morph(node, next);
}

// attributes are taken over, but for what the reader changes.
function attributes(node, next) {
  for (const { name, value } of next.attributes) {
    if (node.getAttribute(name) !== value) {
      node.setAttribute(name, value);
      if (name === "datetime") node.removeAttribute("title");
    }
  }
  for (const { name } of [...node.attributes]) {
    const readers = (name === "open" && node.nodeName === "DETAILS") || (name === "title" && node.nodeName === "TIME") || (name === "class" && node.nodeName === "TR");
    if (!readers && !next.hasAttribute(name)) node.removeAttribute(name);
  }
}
