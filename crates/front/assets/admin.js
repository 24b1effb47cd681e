// Keeps the dashboard's numbers and charts fresh. The page works without this file: it reloads by itself.
"use strict";
(() => {
  const board = document.querySelector("[data-live]");
  if (!board) return;
  const EVERY_MS = 2000;
  const GIVE_UP_MS = 10000;

  const refresh = async () => {
    // Nobody looks, or somebody reads or marks something that should not move away.
    const reading = !getSelection().isCollapsed || board.contains(document.activeElement);
    if (document.hidden || reading) return;
    try {
      const answer = await fetch(board.dataset.live, { signal: AbortSignal.timeout(GIVE_UP_MS) });
      if (answer.status === 401) return location.reload();
      if (!answer.ok) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      board.replaceChildren(...page.body.childNodes);
      board.classList.remove("stale");
    } catch {
      board.classList.add("stale");
    }
  };

  const loop = async () => {
    await refresh();
    setTimeout(loop, EVERY_MS);
  };
  setTimeout(loop, EVERY_MS);
})();
