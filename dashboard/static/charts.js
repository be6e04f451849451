"use strict";
// Draws the charts of the page. Who drags over one gets the page of that time, which has more points.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colors = [["#0b5a86", "#86c5ee"], ["#8a5300", "#f0b95c"], ["#1f6b45", "#6fcf9a"], ["#b3261e", "#ff9c94"],
    ["#6a3fb5", "#c9a7f5"], ["#6b6300", "#e6e07a"], ["#00696b", "#7fd6d6"], ["#a1246f", "#f2a0d0"]];
  // Which of a pair it is may change while the page is open.
  const now = (pair) => pair[dark.matches ? 1 : 0];
  const text = () => now(["#565d62", "#a4acb1"]);
  const line = () => now(["#d5d9db", "#383f43"]);
  const utc = (at) => new Date(at * 1000).toISOString().slice(0, 19) + "Z";
  // Marks of the axis of time: the day where it is another one than that of the mark before.
  const days = (_, ticks) => {
    let before;
    return ticks.map((at) => {
      const t = new Date(at * 1000).toISOString();
      const day = t.slice(5, 10) === before ? "" : "\n" + t.slice(5, 10);
      before = t.slice(5, 10);
      return t.slice(11, at % 60 ? 19 : 16) + day;
    });
  };
  const short = (v) => {
    if (v === null || v === undefined) return "–";
    const size = Math.abs(v);
    for (const [bound, sign] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (size >= bound) return (v / bound).toPrecision(3) + " " + sign;
    return size && size < 0.01 ? v.toExponential(1) : String(Number(v.toPrecision(3)));
  };
  const get = async (address) => {
    const answer = await fetch(address);
    if (!(answer.headers.get("content-type") || "").startsWith("application/json")) throw new Error(await answer.text());
    const data = await answer.json();
    if (data.problem) throw new Error(data.problem);
    return data;
  };
  const zoom = (from, until) => {
    const next = new URL(location.href);
    next.searchParams.set("since", utc(Math.floor(from)));
    next.searchParams.set("until", utc(Math.ceil(until)));
    location.assign(next);
  };
  const table = (lines) => {
    const t = document.createElement("table");
    const row = (cells, header) => {
      const tr = document.createElement("tr");
      cells.forEach((cell, i) => {
        const c = document.createElement(header || i === 0 ? "th" : "td");
        c.scope = header ? "col" : i === 0 ? "row" : "";
        if (!header && i > 0) c.removeAttribute("scope");
        c.append(cell);
        tr.append(c);
      });
      return tr;
    };
    t.createTHead().append(row(["series", "last", "least", "most"], true));
    const body = t.createTBody();
    lines.forEach((l) => {
      const known = l.values.filter((v) => v !== null);
      const name = document.createElement("span");
      const mark = document.createElement("span");
      mark.className = "swatch" + (l.before ? " before" : "");
      mark.style.borderColor = now(l.color);
      name.append(mark, l.name + (l.before ? " (the week before)" : ""));
      let least = null, most = null;
      for (const v of known) {
        if (least === null || v < least) least = v;
        if (most === null || v > most) most = v;
      }
      body.append(row([name, short(known[known.length - 1]), short(least), short(most)], false));
    });
    return t;
  };
  const draw = async (part) => {
    const state = part.querySelector(".state");
    const plot = part.querySelector(".plot");
    try {
      const answer = await get(part.dataset.series);
      const lines = answer.lines.map((l, i) => ({ ...l, color: colors[i % colors.length] }));
      if (part.dataset.before) {
        const before = await get(part.dataset.before);
        before.lines.forEach((l, i) => {
          const same = lines.find((x) => !x.before && x.name === l.name);
          lines.push({ ...l, before: true, color: same ? same.color : colors[i % colors.length] });
        });
      }
      if (lines.length === 0) {
        state.textContent = "The store of " + answer.store + " has nothing for it in this time.";
        return;
      }
      state.textContent = "From the store of " + answer.store + "." + (answer.more ? " " + answer.more + " more series are left out; narrow the query, such as by topk." : "");
      plot.setAttribute("role", "img");
      plot.setAttribute("aria-label", "Chart of " + part.querySelector("h2").textContent + "; its values are in the table below.");
      const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
      const chart = new uPlot({
        width: plot.clientWidth, height: 220, legend: { show: false }, cursor: { drag: { x: true, y: false, setScale: false } },
        tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
        scales: { x: { range: [answer.at[0], answer.at[answer.at.length - 1]] } },
        axes: [{ ...axis, values: days }, { ...axis, size: 64, values: (_, ticks) => ticks.map(short) }],
        series: [{}, ...lines.map((l) => ({ label: l.name, stroke: () => now(l.color), width: l.before ? 1 : 2, dash: l.before ? [6, 4] : undefined, spanGaps: false }))],
        hooks: {
          setSelect: [(u) => {
            if (u.select.width > 5) zoom(u.posToVal(u.select.left, "x"), Math.max(u.posToVal(u.select.left, "x") + 60, u.posToVal(u.select.left + u.select.width, "x")));
          }],
        },
      }, [answer.at, ...lines.map((l) => l.values)], plot);
      new ResizeObserver(() => chart.setSize({ width: plot.clientWidth, height: 220 })).observe(plot);
      const values = () => part.querySelector(".values").replaceChildren(table(lines));
      values();
      dark.addEventListener("change", () => {
        chart.redraw(false);
        values();
      });
    } catch (err) {
      state.textContent = "It cannot be drawn: " + err.message;
      state.classList.add("banner");
    }
  };
  document.querySelectorAll(".chart").forEach(draw);
})();
