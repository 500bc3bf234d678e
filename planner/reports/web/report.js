"use strict";
// What every page does: draws its figures as they come into view, shows the tables behind them, switches theme.
const report = (() => {
  const root = document.documentElement;
  const cache = new Map();
  const made = new Map();  // tables that other scripts make from arrays of their own

  function data(part) {
    if (!cache.has(part)) cache.set(part, JSON.parse(document.getElementById("data-" + part).textContent));
    return cache.get(part);
  }

  function colour(name) {
    return getComputedStyle(root).getPropertyValue("--" + name).trim();
  }

  function filled(value) {
    if (typeof value === "string") return value[0] === "@" ? colour(value.slice(1)) : value;
    if (Array.isArray(value)) return value.map(filled);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, filled(inner)]));
    }
    return value;
  }

  // --- figures --------------------------------------------------------------------------------------------

  const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset" };

  function look() {
    const axis = {
      gridcolor: colour("faint"), zerolinecolor: colour("muted"), linecolor: colour("muted"),
      tickcolor: colour("muted"), tickfont: { color: colour("muted"), size: 12 }, automargin: true, fixedrange: true,
    };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false, showlegend: false,
      font: { family: getComputedStyle(document.body).fontFamily, color: colour("ink"), size: 13 },
      hoverlabel: { bgcolor: colour("paper"), bordercolor: colour("muted"), font: { color: colour("ink"), size: 13 } },
      xaxis: axis, yaxis: axis, margin: { l: 8, r: 12, t: 6, b: 6 },
    };
  }

  function draw(place, width) {
    const figure = data(place.dataset.part).figures[Number(place.dataset.panel)];
    const layout = { ...filled(figure.layout), template: { layout: look() } };
    if (width) layout.width = width; else layout.autosize = true;
    Plotly.react(place, filled(figure.data), layout, CONFIG);
    place.dataset.drawn = "yes";
  }

  const places = [...document.querySelectorAll(".plot")];
  for (const place of places) place.style.minHeight = place.dataset.height + "px";
  const watch = new IntersectionObserver((seen) => {
    for (const entry of seen) {
      if (!entry.isIntersecting) continue;
      watch.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "300px" });
  for (const place of places) watch.observe(place);

  const redraws = [() => places.filter((place) => place.dataset.drawn).forEach((place) => draw(place))];

  // --- theme ----------------------------------------------------------------------------------------------

  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");

  function dark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
  }

  function repaint() {
    button.textContent = dark() ? "Light" : "Dark";
    for (const redraw of redraws) redraw();
  }

  function remembered(theme) {
    try {  // a page opened from disk may be allowed no memory
      if (theme) localStorage.setItem("gangplan-theme", theme);
      return localStorage.getItem("gangplan-theme");
    } catch {
      return null;
    }
  }

  const before = remembered();
  if (before === "dark" || before === "light") root.dataset.theme = before;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remembered(root.dataset.theme);
    repaint();
  });
  system.addEventListener("change", repaint);
  button.textContent = dark() ? "Light" : "Dark";

  const PAPER_PX = 680;  // what A4 holds between its margins
  let screenTheme;
  addEventListener("beforeprint", () => {
    screenTheme = root.dataset.theme;
    root.dataset.theme = "light";
    for (const place of places) draw(place, place.closest(".many") ? PAPER_PX / 2 - 16 : PAPER_PX);
    for (const redraw of redraws.slice(1)) redraw();
  });
  addEventListener("afterprint", () => {
    if (screenTheme) root.dataset.theme = screenTheme; else delete root.dataset.theme;
    for (const place of places) draw(place);
    for (const redraw of redraws.slice(1)) redraw();
  });

  // --- tables ---------------------------------------------------------------------------------------------

  const SHOWN = 300;

  function cells(table) {
    const names = Object.keys(table);
    const count = names.length ? table[names[0]].length : 0;
    return { names, count, row: (i) => names.map((name) => table[name][i]) };
  }

  function csv(table) {
    const { names, count, row } = cells(table);
    const quoted = (value) => {
      if (value === null) return "";
      return typeof value === "string" ? '"' + value.replaceAll('"', '""') + '"' : String(value);
    };
    const lines = [names.map(quoted).join(",")];
    for (let i = 0; i < count; i++) lines.push(row(i).map(quoted).join(","));
    return lines.join("\r\n") + "\r\n";
  }

  function element(tag, text, kind) {
    const out = document.createElement(tag);
    if (text !== undefined) out.textContent = text;
    if (kind) out.className = kind;
    return out;
  }

  function shown(value) {
    if (value === null) return "-";
    return typeof value === "number" ? value.toLocaleString("en", { maximumFractionDigits: 3 }) : String(value);
  }

  function tableOf(table) {
    const { names, count, row } = cells(table);
    const out = element("table"), head = out.createTHead().insertRow(), body = out.createTBody();
    for (const name of names) {
      const cell = element("th", name.replaceAll("_", " "), typeof table[name][0] === "number" ? "n" : "");
      cell.scope = "col";
      head.append(cell);
    }
    for (let i = 0; i < Math.min(count, SHOWN); i++) {
      const line = body.insertRow();
      for (const value of row(i)) line.append(element("td", shown(value), typeof value === "number" ? "n" : ""));
    }
    return out;
  }

  for (const behind of document.querySelectorAll(".behind")) {
    behind.addEventListener("toggle", () => {
      if (!behind.open || behind.querySelector("button")) return;
      const part = behind.dataset.part, table = made.has(part) ? made.get(part)() : data(part).table;
      const { count } = cells(table);
      const save = element("button", "Download CSV");
      save.addEventListener("click", () => {
        const link = element("a");
        link.href = URL.createObjectURL(new Blob([csv(table)], { type: "text/csv" }));
        link.download = part + ".csv";
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 1000);
      });
      behind.append(save);
      if (behind.parentElement.className === "grid") return;
      const wide = element("div", undefined, "wide");
      wide.append(tableOf(table));
      behind.append(wide);
      if (count > SHOWN) behind.append(element("p", `The first ${SHOWN} rows; the CSV has all of them.`));
    });
  }

  // --- numbers stand to the right ---------------------------------------------------------------------------

  for (const table of document.querySelectorAll(".grid table")) {
    const head = [...table.tHead.rows[0].cells];
    head.forEach((cell, column) => {
      const below = [...table.tBodies[0].rows].map((row) => row.cells[column]);
      if (!below.every((one) => !one.children.length && /^[-+]?[\d,.]*\s*%?$/.test(one.textContent.trim()))) return;
      for (const one of [cell, ...below]) one.classList.add("n");
    });
  }

  // --- age ------------------------------------------------------------------------------------------------

  function age() {
    const { made, stale } = document.body.dataset, note = document.getElementById("stale");
    if (!made) return;
    const seconds = Date.now() / 1000 - Number(made);
    note.hidden = seconds <= Number(stale);
    const hours = Math.floor(seconds / 3600), minutes = Math.floor((seconds % 3600) / 60);
    note.textContent = `This page is ${hours} h ${minutes} min old: what should refresh it has stopped.`;
  }
  age();
  setInterval(age, 30000);

  return { data, colour, element, redraws, made };
})();
