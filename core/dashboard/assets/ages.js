// How long ago something was, for people. The server says moments only, so that what it sends does not change by the mere passing of time.

// age returns a duration in milliseconds as its two largest units, or one.
export function age(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${s < 600 ? ` ${s % 60}s` : ""}`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${Math.floor(s / 60) % 60}m`;
  return `${Math.floor(s / 86400)}d ${Math.floor(s / 3600) % 24}h`;
}

// tellAges writes how long ago each moment on the page was.
export function tellAges() {
  const now = Date.now();
  for (const t of document.querySelectorAll("time[data-age]")) {
    const then = Date.parse(t.dateTime);
    if (Number.isNaN(then)) continue;
    const text = age(now - then);
    if (t.textContent !== text) t.textContent = text;
    if (!t.title) t.title = new Date(then).toLocaleString();
  }
}
