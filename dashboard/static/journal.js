"use strict";
// Shows the lines of a node as they are written, while the part of the page is open.
(() => {
  const part = document.getElementById("journal");
  const list = document.getElementById("journal-lines");
  const state = document.getElementById("journal-state");
  const most = 500;
  let events;
  const add = (lines) => {
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    for (const line of lines) {
      const item = document.createElement("li");
      item.className = line.level;
      item.textContent = line.level === "ok" ? line.text : line.level + ": " + line.text;
      list.append(item);
    }
    while (list.childElementCount > most) list.firstElementChild.remove();
    if (atEnd) list.scrollTop = list.scrollHeight;
  };
  const stop = (text) => {
    if (events) events.close();
    events = undefined;
    state.textContent = text;
  };
  const start = () => {
    state.textContent = "The node is asked …";
    events = new EventSource(part.dataset.from);
    events.addEventListener("begun", () => {
      list.replaceChildren();
      state.textContent = "New lines come as they are written; the last 500 stay.";
    });
    events.addEventListener("lines", (e) => add(JSON.parse(e.data)));
    events.addEventListener("ended", (e) => stop(JSON.parse(e.data) + " Close this part and open it to ask again."));
    events.onerror = () => {
      if (!events || events.readyState === EventSource.CLOSED) return stop("It cannot be followed. Close this part and open it to ask again.");
      state.textContent = "The connection to " + (document.body.dataset.from || "spore dashboard") + " is lost: nothing new comes.";
    };
  };
  part.addEventListener("toggle", () => (part.open ? start() : stop("")));
})();
