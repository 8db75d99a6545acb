// Keeps the page as the server would send it now.
import { morph } from "./morph.js";
import { tellAges } from "./ages.js";

const maxEvents = 300; // rows; older ones go
const maxOutput = 1 << 20; // characters; older ones go

// The one place where text of the server becomes elements.
const policy = window.trustedTypes?.createPolicy("setpoint", { createHTML: (text) => text });

function fragment(text) {
  const template = document.createElement("template");
  template.innerHTML = policy ? policy.createHTML(text) : text;
  return template.content;
}

let source = null;
let printed = 0; // characters of output on the page
let last = ""; // revision up to which events were shown

// followPage begins, and rests while nobody sees the page.
export function followPage() {
  if (!("live" in document.body.dataset)) return;
  last = document.body.dataset.after;
  open();
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (e) => e.persisted && open());
}

function open() {
  if (source || !("live" in document.body.dataset)) return;
  const at = new URL(location.href);
  if (last && last !== "0") at.searchParams.set("after", last);
  source = new EventSource(at);
  source.addEventListener("open", () => say("live", "live"));
  source.addEventListener("error", failed);
  source.addEventListener("region", (e) => showRegion(JSON.parse(e.data)));
  source.addEventListener("stalled", (e) => showStalled(JSON.parse(e.data)));
  source.addEventListener("events", showEvents);
  source.addEventListener("output", (e) => showOutput(JSON.parse(e.data)));
  source.addEventListener("finished", (e) => {
    close();
    say("ended", JSON.parse(e.data));
    delete document.body.dataset.live;
  });
  source.addEventListener("reload", () => location.reload());
  source.addEventListener("gone", (e) => {
    close();
    say("gone", JSON.parse(e.data));
  });
}

function close() {
  source?.close();
  source = null;
}

function failed() {
  if (source?.readyState !== EventSource.CLOSED) {
    say("away", "reconnecting");
    return;
  }
  close();
  say("ended", "not live");
  setTimeout(retry, 3000);
}

// retry finds out whether the session has ended or the server was away.
async function retry() {
  try {
    const answer = await fetch(location.href, { method: "HEAD" });
    if (answer.status === 401) {
      say("ended", "session ended");
      location.reload();
      return;
    }
    open();
  } catch {
    setTimeout(retry, 3000);
  }
}

function say(is, text) {
  const live = document.getElementById("live");
  live.dataset.is = is;
  if (live.textContent !== text) live.textContent = text;
}

function showRegion({ id, html }) {
  const region = document.getElementById(id);
  if (!region) return;
  morph(region, fragment(html));
  region.dispatchEvent(new CustomEvent("shown", { bubbles: true }));
  tellAges();
}

function showStalled(n) {
  const number = document.getElementById("stalled");
  number.textContent = String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  number.className = n ? "bad" : "";
  const name = document.title.replace(/^\(\d+\) /, "");
  document.title = n ? `(${n}) ${name}` : name;
}

function showEvents(e) {
  last = e.lastEventId || last;
  const rows = document.getElementById("events");
  if (!rows) return;
  rows.prepend(fragment(JSON.parse(e.data)));
  while (rows.rows.length > maxEvents) rows.deleteRow(-1);
  tellAges();
}

// showOutput adds to what a task printed. Who looks at its end goes on looking at its end.
function showOutput({ text, first }) {
  const output = document.getElementById("output");
  if (!output) return;
  const atEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - 4;
  if (first) output.textContent = "";
  output.append(text);
  printed = first ? text.length : printed + text.length;
  if (printed > maxOutput) {
    output.textContent = output.textContent.slice(-maxOutput / 2);
    printed = output.textContent.length;
  }
  if (atEnd || first) output.scrollTop = output.scrollHeight;
}
