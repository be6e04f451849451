"use strict";
// Takes the content of the page again whenever the command has something new, and says when it no longer does.
(() => {
  const main = document.getElementById("main");
  const lost = document.getElementById("lost");
  const from = document.body.dataset.from;
  const by = from || "spore dashboard";
  const say = (text) => {
    lost.textContent = text;
    lost.hidden = false;
    main.classList.add("stale");
  };
  const show = (html, title) => {
    const open = document.activeElement;
    const path = open && main.contains(open) && open.getAttribute("href");
    const next = new DOMParser().parseFromString(html, "text/html");
    main.replaceChildren(...next.body.childNodes);
    document.title = title;
    if (path) {
      const again = [...main.querySelectorAll("a")].find((a) => a.getAttribute("href") === path);
      if (again) again.focus({ preventScroll: true });
    }
  };
  // Who copies a command keeps what is selected for a while.
  let waiting, held;
  const selects = () => {
    const s = document.getSelection();
    return s && !s.isCollapsed && main.contains(s.anchorNode);
  };
  const offer = () => {
    if (!waiting) return;
    if (held === undefined) held = performance.now();
    if (selects() && performance.now() - held < 8000) return;
    show(waiting.main, waiting.title);
    waiting = held = undefined;
  };
  let silent;
  const heard = () => {
    clearTimeout(silent);
    lost.hidden = true;
    main.classList.remove("stale");
    silent = setTimeout(() => say(by + " says nothing any more: what you see is old."), 9000);
  };
  const events = new EventSource("/events?page=" + encodeURIComponent(location.pathname + location.search) + "&sum=" + main.dataset.sum);
  events.addEventListener("page", (e) => {
    waiting = JSON.parse(e.data);
    offer();
    heard();
  });
  events.addEventListener("same", () => {
    offer();
    heard();
  });
  events.addEventListener("ended", (e) => {
    events.close();
    clearTimeout(silent);
    const last = JSON.parse(e.data);
    show(last.main, last.title);
    lost.hidden = true;
    main.classList.remove("stale");
    main.focus();
  });
  events.onerror = () => {
    clearTimeout(silent);
    say("The connection to " + by + " is lost: what you see is old. " + (from ? "Open the page again to see why." : "Is the command still running?"));
  };
})();
