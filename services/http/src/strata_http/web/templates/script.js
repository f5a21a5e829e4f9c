// Pages work without it. With it, elements with data-live follow the server, and buttons with data-copy copy a text.
"use strict";
const PERIOD = 3000;
const live = () => document.querySelectorAll("[data-live]");
async function refresh() {
  if (document.hidden) return;
  let page;
  try {
    const response = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (!response.ok) return;
    page = new DOMParser().parseFromString(await response.text(), "text/html");
  } catch {
    return; // the next one may be answered
  }
  for (const element of live()) {
    const newer = page.getElementById(element.id);
    if (newer === null || newer.innerHTML === element.innerHTML) continue;
    const focus = element.contains(document.activeElement) ? document.activeElement.id : "";
    element.innerHTML = newer.innerHTML;
    // a keyboard stays where it was
    if (focus) document.getElementById(focus)?.focus();
  }
}
async function follow() {
  await refresh();
  setTimeout(follow, PERIOD);
}
if (live().length > 0) {
  setTimeout(follow, PERIOD);
  addEventListener("visibilitychange", refresh);
}
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}
