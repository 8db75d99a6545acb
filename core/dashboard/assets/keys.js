// Keys for those who do not take the mouse.

const places = { o: "/", s: "/stalls", j: "/jobs", n: "/nodes", p: "/plugins", e: "/events" };

let going = false; // g was pressed

// listenToKeys begins.
export function listenToKeys() {
  const help = document.getElementById("help");
  document.querySelector("[data-help]")?.addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || help.open || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.nodeName)) return;
    if (key(e, help)) e.preventDefault();
  });
  document.addEventListener("click", openRow);
}

// key does what a key is for, and reports whether it is for something.
function key(e, help) {
  if (going) {
    going = false;
    if (places[e.key]) location.assign(places[e.key]);
    return Boolean(places[e.key]);
  }
  switch (e.key) {
    case "g":
      going = true;
      setTimeout(() => (going = false), 1500);
      return true;
    case "?":
      help.showModal();
      return true;
    case "/": {
      const search = document.getElementById("q");
      search?.focus();
      return Boolean(search);
    }
    case "j":
      return step(1);
    case "k":
      return step(-1);
  }
  return false;
}

// step goes to the next or previous row that can be opened, whose link gets the focus.
function step(by) {
  const rows = [...document.querySelectorAll("tr[data-open]")];
  if (rows.length === 0) return false;
  const at = rows.findIndex((r) => r.contains(document.activeElement));
  const to = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
  to.querySelector("a")?.focus();
  to.scrollIntoView({ block: "nearest" });
  return true;
}

// openRow opens what a row is about, unless something in it was meant.
function openRow(e) {
  const row = e.target.closest?.("tr[data-open]");
  if (!row || e.target.closest("a, button, summary") || String(getSelection())) return;
  location.assign(row.dataset.open);
}
