// Keeps what is on the page up to date. Everything works without it; what is shown always comes from the server.
"use strict";

const SOON_MS = 120000;
// The reader's clock may be wrong: what counts is how far the server's was from it when the page was made.
const AHEAD_MS = document.body.dataset.now ? Number(document.body.dataset.now) - Date.now() : 0;

function timeLeft(ms) {
  if (ms <= 0) return "time is over";
  const s = Math.ceil(ms / 1000);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([unit]) => s >= unit);
  return parts.slice(first, first + 2)
    .map(([unit, name], n) => `${Math.floor((n ? s % parts[first][0] : s) / unit)} ${name}`)
    .join(" ") + " left";
}

function countDown() {
  for (const element of document.querySelectorAll("[data-until]")) {
    const left = Number(element.dataset.until) - Date.now() - AHEAD_MS;
    element.querySelector("[data-left]").textContent = timeLeft(left);
    element.querySelector("progress").value = Math.max(left, 0);
    element.toggleAttribute("data-soon", left < SOON_MS);
    if (left <= 0 && element.closest("[data-live-hold]")) tooLate();
  }
}

// What is decided after the time counts for nothing; the server says so as well.
function tooLate() {
  const form = document.querySelector("form[data-decide]");
  if (!form || form.dataset.over) return;
  form.dataset.over = "true";
  for (const button of form.querySelectorAll("button")) button.disabled = true;
  const note = document.createElement("p");
  note.className = "notice bad";
  note.setAttribute("role", "alert");
  note.textContent = "The time to decide is over; nothing will run.";
  form.prepend(note);
}

function ownTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    time.title = time.textContent;
    time.textContent = new Date(time.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  }
}

function count() {
  const found = document.querySelector("[data-count]");
  return found ? Number(found.dataset.count) : 0;
}

function tellCount(before) {
  const now = count();
  if (!document.querySelector("[data-live='/inbox']")) return;
  document.title = (now ? `(${now}) ` : "") + document.title.replace(/^\(\d+\) /, "");
  if (now !== before) document.getElementById("news").textContent = now === 1 ? "1 call waits" : `${now} calls wait`;
}

async function fetchPart(part) {
  const answer = await fetch(part.dataset.live, { headers: { Accept: "text/html" } });
  if (answer.status === 401) return window.location.reload();
  if (!answer.ok) return undefined;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const before = count();
  const focused = part.contains(document.activeElement) ? document.activeElement.closest("[data-key]")?.dataset.key : undefined;
  const opened = [...part.querySelectorAll("details[open][data-key]")].map((one) => one.dataset.key);
  part.replaceChildren(...fresh.body.childNodes);
  for (const key of opened) part.querySelector(`details[data-key="${CSS.escape(key)}"]`)?.setAttribute("open", "");
  if (focused) part.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  ownTimes(part);
  countDown();
  tellCount(before);
  const state = part.querySelector("[data-state]");
  if (state && state.dataset.state !== "requested") {
    const form = document.querySelector("[data-decide]");
    if (form?.contains(document.activeElement)) document.getElementById("main").focus();
    form?.remove();
    document.querySelector(".to-decision")?.remove();
    document.getElementById("news").textContent = state.textContent.replace(/\s+/g, " ").trim();
  }
  return undefined;
}

// However many changes arrive, one part is fetched by one request at a time, and once more after the last change.
const wanted = new Map();
async function refresh(part) {
  if (wanted.has(part)) return void wanted.set(part, true);
  do {
    wanted.set(part, false);
    try { await fetchPart(part); } catch { break; } // the stream tells when the service is there again
  } while (wanted.get(part));
  wanted.delete(part);
  return undefined;
}

function follow(path) {
  const live = document.getElementById("live");
  const parts = () => document.querySelectorAll("[data-live]");
  const source = new EventSource(path);
  let missed = true; // what changed between the page and the stream
  source.addEventListener("open", () => {
    live.dataset.on = "true";
    live.textContent = "live";
    if (missed) parts().forEach(refresh);
    missed = false;
  });
  source.addEventListener("error", () => {
    live.dataset.on = "false";
    live.textContent = source.readyState === EventSource.CLOSED ? "not live: reload to sign in again" : "not connected";
    missed = true;
  });
  source.addEventListener("hold", (event) => {
    const { hold_id: holdId } = JSON.parse(event.data);
    for (const part of parts()) {
      if (!part.dataset.liveHold || part.dataset.liveHold === holdId) refresh(part);
    }
  });
  window.addEventListener("pagehide", () => source.close());
  return source;
}

// A browser opens only a few streams to one place: of the pages in the background only the inbox, which counts, keeps its own.
function followWhileSeen(path) {
  let source = follow(path);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !source) source = follow(path);
    if (document.hidden && source && !document.querySelector("[data-live='/inbox']")) {
      source.close();
      source = null;
    }
  });
}

// A reason that is half written survives the sign-in that has become too old.
function keepDraft() {
  const key = `reason:${window.location.pathname}`;
  const field = document.getElementById("reason");
  if (!field) return document.querySelector("[data-decide]") ? undefined : sessionStorage.removeItem(key);
  field.value ||= sessionStorage.getItem(key) || "";
  field.addEventListener("input", () => sessionStorage.setItem(key, field.value));
  return undefined;
}

// Arrow keys go from call to call once one of them has the focus.
document.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !document.activeElement?.matches(".card-main")) return;
  const cards = [...document.querySelectorAll(".card-main")];
  const next = cards[cards.indexOf(document.activeElement) + step];
  if (next) { event.preventDefault(); next.focus(); }
});

// One decision, one click.
document.querySelector("form[data-decide]")?.addEventListener("submit", (event) => {
  const form = event.currentTarget;
  if (form.dataset.sent || form.dataset.over) event.preventDefault();
  form.dataset.sent = "true";
});
window.addEventListener("pageshow", (event) => { if (event.persisted) window.location.reload(); });

ownTimes(document);
countDown();
tellCount(count());
setInterval(countDown, 1000);
if (document.querySelector(".hold")) keepDraft();
if (document.body.dataset.liveFrom) followWhileSeen(document.body.dataset.liveFrom);
