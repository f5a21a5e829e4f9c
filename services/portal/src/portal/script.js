// Refreshes the states; without it, the page shows those of its own request.
"use strict";
const cards = document.querySelectorAll("#cards .state");
async function refresh() {
  if (document.hidden) return;
  let report = { services: [] };
  try {
    report = await (await fetch("state.json", { cache: "no-store", signal: AbortSignal.timeout(4000) })).json();
  } catch {
    // the states below become unknown
  }
  cards.forEach((card, index) => {
    const [state, text] = report.services[index] ?? ["unknown", "State unknown"];
    if (card.dataset.state !== state || card.textContent !== text) {
      card.dataset.state = state;
      card.textContent = text;
    }
  });
  if (report.checked) document.getElementById("checked").textContent = new Date(report.checked * 1000).toLocaleTimeString();
}
addEventListener("visibilitychange", refresh);
setInterval(refresh, 5000);
refresh();
