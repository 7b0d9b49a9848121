// Keeps what is on the page up to date. Everything works without it; what is shown always comes from the server.
"use strict";

const SOON_MS = 120000;

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
    const left = Number(element.dataset.until) - Date.now();
    element.textContent = timeLeft(left);
    element.toggleAttribute("data-soon", left < SOON_MS);
  }
}

function ownTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    time.title = time.textContent;
    time.textContent = new Date(time.dateTime).toLocaleString();
  }
}

async function refresh(part) {
  const answer = await fetch(part.dataset.live, { headers: { Accept: "text/html" } });
  if (answer.status === 401) return window.location.assign("/signin");
  if (!answer.ok) return undefined;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  part.replaceChildren(...fresh.body.childNodes);
  ownTimes(part);
  countDown();
  const state = part.querySelector("[data-state]");
  if (state && state.dataset.state !== "requested") document.querySelector("[data-decide]")?.remove();
  return undefined;
}

function follow(path) {
  const live = document.getElementById("live");
  const source = new EventSource(path);
  let missed = false;
  const parts = () => document.querySelectorAll("[data-live]");
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
}

ownTimes(document);
countDown();
setInterval(countDown, 1000);
if (document.body.dataset.liveFrom) follow(document.body.dataset.liveFrom);
// One decision, one click.
document.querySelector("[data-decide]")?.addEventListener("submit", (event) => {
  const form = event.currentTarget;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "true";
});
