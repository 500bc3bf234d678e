"use strict";
// The timeline: bars of runs on rows of GPUs. Far away it is a raster in which every pixel has the colour of the run
// that fills most of it; near, it is bars with hatching, edges and names. Both are drawn from the same arrays.
for (const place of document.querySelectorAll(".timeline")) {
  const { element, colour } = report, part = place.dataset.part, packed = report.data(part).canvas;
  const { job, run, bar, hold, payer, size, clock, story, table, isHit } = unpacked(packed);
  const { node: nodeNames, place: nodePlaces, gpus: nodeGpus } = packed.nodes;
  const firstRow = [];
  let allRows = 0;
  for (const gpus of nodeGpus) { firstRow.push(allRows); allRows += gpus; }

  // --- view -----------------------------------------------------------------------------------------------

  const GUTTER = 74, AXIS = 22, SHORTEST_S = 120, FEWEST_ROWS = 4;
  const whole = () => ({ t0: 0, t1: packed.end, r0: 0, r1: allRows });
  let view = whole(), chosen = -1, mode = "raster";

  const tools = element("div", undefined, "tools");
  const canvas = element("canvas"), where = element("p", undefined, "where"), life = element("div", undefined, "life");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Timeline of all runs; the table below holds the same");
  life.hidden = true;
  const pen = canvas.getContext("2d");

  function tool(label, act) {
    const out = element("button", label);
    out.type = "button";
    out.addEventListener("click", act);
    tools.append(out);
  }

  const find = element("input");
  find.placeholder = "Find a workload";
  find.setAttribute("aria-label", "Find a workload by its id");
  tool("Zoom in", () => zoom(0.5, 0.5, 0.5, 0.5));
  tool("Zoom out", () => zoom(2, 2, 0.5, 0.5));
  tool("Time +", () => zoom(0.5, 1, 0.5, 0.5));
  tool("Rows +", () => zoom(1, 0.5, 0.5, 0.5));
  tool("All", () => { view = whole(); draw(); });
  tools.append(find);
  place.append(tools, canvas, where, life);

  const width = () => canvas.clientWidth - GUTTER, height = () => canvas.clientHeight - AXIS;
  const x = (time) => GUTTER + (time - view.t0) / (view.t1 - view.t0) * width();
  const y = (row) => (row - view.r0) / (view.r1 - view.r0) * height();

  function clamp() {
    const time = Math.min(Math.max(view.t1 - view.t0, SHORTEST_S), packed.end);
    const rows = Math.min(Math.max(view.r1 - view.r0, Math.min(FEWEST_ROWS, allRows)), allRows);
    view.t0 = Math.min(Math.max(view.t0, 0), packed.end - time);
    view.r0 = Math.min(Math.max(view.r0, 0), allRows - rows);
    view.t1 = view.t0 + time;
    view.r1 = view.r0 + rows;
  }

  function zoom(times, rows, atX, atY) {
    const time = view.t0 + atX * (view.t1 - view.t0), row = view.r0 + atY * (view.r1 - view.r0);
    view = {
      t0: time - (time - view.t0) * times, t1: time + (view.t1 - time) * times,
      r0: row - (row - view.r0) * rows, r1: row + (view.r1 - row) * rows,
    };
    draw();
  }

  // --- drawing --------------------------------------------------------------------------------------------

  const MOST_BARS = 6000, NEAR_PX = 2.5, PALE = 0.5, EDGE = "#c1121f";

  function rgb(text) {
    return [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
  }

  function mixed(one, other, part) {
    return one.map((value, i) => Math.round(value + (other[i] - value) * part));
  }

  let paper, strong, pale, hatch;

  function inks() {
    paper = rgb(colour("paper"));
    strong = packed.colours.map(rgb);
    pale = strong.map((one) => mixed(one, paper, PALE));
    hatch = strong.map((one) => {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 6;
      const brush = tile.getContext("2d");
      brush.fillStyle = `rgb(${mixed(one, paper, PALE)})`;
      brush.fillRect(0, 0, 6, 6);
      brush.strokeStyle = `rgb(${one})`;
      brush.lineWidth = 1.2;
      for (const shift of [-6, 0, 6]) {
        brush.beginPath();
        brush.moveTo(shift, 6);
        brush.lineTo(shift + 6, 0);
        brush.stroke();
      }
      return pen.createPattern(tile, "repeat");
    });
  }

  function visible() {
    const out = [];
    for (let b = 0; b < bar.run.length; b++) {
      const r = bar.run[b];
      if (run.end[r] <= view.t0 || run.start[r] >= view.t1) continue;
      if (bar.row[b] + bar.rows[b] <= view.r0 || bar.row[b] >= view.r1) continue;
      out.push(b);
    }
    return out;
  }

  function draw() {
    if (place.clientWidth <= GUTTER) return;  // not laid out yet
    clamp();
    const scale = devicePixelRatio || 1, wide = place.clientWidth, tall = innerWidth < 700 ? 420 : 600;
    canvas.style.height = tall + "px";
    canvas.width = Math.round(wide * scale);
    canvas.height = Math.round(tall * scale);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    inks();
    const bars = visible(), rowPx = height() / (view.r1 - view.r0);
    mode = bars.length > MOST_BARS || rowPx < NEAR_PX ? "raster" : "bars";
    if (mode === "raster") raster(bars, scale); else near(bars, rowPx);
    holds();
    outline();
    frame();
    Object.assign(place.dataset, { mode, bars: bars.length, t0: view.t0, t1: view.t1, r0: view.r0, r1: view.r1 });
  }

  function raster(bars, scale) {
    const wide = Math.round(width() * scale), tall = Math.round(height() * scale);
    const image = pen.createImageData(wide, tall), pixels = new Uint32Array(image.data.buffer);
    const filled = new Float32Array(wide * tall);
    const px = wide / (view.t1 - view.t0), py = tall / (view.r1 - view.r0);
    const ink = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
    const dark = strong.map(ink), light = pale.map(ink);
    for (const b of bars) {
      const r = bar.run[b], a = job.allocation[run.workload[r]];
      const top = Math.max(0, Math.floor((bar.row[b] - view.r0) * py));
      const bottom = Math.min(tall, Math.max(top + 1, Math.round((bar.row[b] + bar.rows[b] - view.r0) * py)));
      const from = Math.max(0, (run.start[r] - view.t0) * px), to = Math.min(wide, (run.end[r] - view.t0) * px);
      const turn = (Math.max(run.until[r], run.start[r]) - view.t0) * px;
      for (let column = Math.floor(from); column < to; column++) {
        const part = Math.min(to, column + 1) - Math.max(from, column);
        const shade = column + 0.5 < turn ? dark[a] : light[a];
        for (let line = top, i = top * wide + column; line < bottom; line++, i += wide) {
          if (part < filled[i]) continue;
          filled[i] = part;
          pixels[i] = shade;
        }
      }
    }
    pen.putImageData(image, Math.round(GUTTER * scale), 0);
  }

  function near(bars, rowPx) {
    const gap = rowPx > 5 ? 1 : 0.3, right = GUTTER + width();
    for (const b of bars) {
      const r = bar.run[b], w = run.workload[r], a = job.allocation[w];
      const left = Math.max(GUTTER, x(run.start[r])), end = Math.min(right, x(run.end[r]));
      const turn = Math.min(end, Math.max(left, x(Math.max(run.until[r], run.start[r]))));
      const top = y(bar.row[b]), tall = Math.max(0.7, bar.rows[b] * rowPx - gap);
      pen.fillStyle = packed.colours[a];
      pen.fillRect(left, top, turn - left, tall);
      pen.fillStyle = hatch[a];
      pen.fillRect(turn, top, end - turn, tall);
      if (isHit(r) && x(run.end[r]) <= right) {
        pen.fillStyle = EDGE;
        pen.fillRect(end - 2, top, 2.5, tall);
      }
      label(packed.ids[w], left, end, top, tall);
    }
  }

  function label(text, left, end, top, tall) {
    if (tall < 11 || end - left < 34) return;
    pen.save();
    pen.beginPath();
    pen.rect(left, top, end - left - 3, tall);
    pen.clip();
    pen.font = "11px " + getComputedStyle(document.body).fontFamily;
    const long = pen.measureText(text).width;
    pen.fillStyle = `rgba(${paper},0.82)`;
    pen.fillRect(left + 2, top + Math.min(tall / 2, 9) - 6, long + 4, 12);
    pen.fillStyle = colour("ink");
    pen.textBaseline = "middle";
    pen.fillText(text, left + 4, top + Math.min(tall / 2, 9));
    pen.restore();
  }

  function holds() {
    pen.save();
    pen.strokeStyle = colour("ink");
    pen.lineWidth = 1.5;
    pen.setLineDash([4, 3]);
    const near = hold.row.length < 60 || mode === "bars";
    for (let i = 0; near && i < hold.row.length; i++) {
      const left = Math.max(GUTTER, x(hold.from[i])), end = Math.min(GUTTER + width(), x(hold.until[i]));
      if (end <= left || hold.row[i] >= view.r1 || hold.row[i] + hold.rows[i] <= view.r0) continue;
      const top = Math.max(0, y(hold.row[i])), bottom = Math.min(height(), y(hold.row[i] + hold.rows[i]));
      pen.strokeRect(left + 1, top + 1, end - left - 2, bottom - top - 2);
    }
    pen.restore();
  }

  function outline() {
    if (chosen < 0) return;
    pen.strokeStyle = colour("ink");
    pen.lineWidth = 2;
    for (let b = 0; b < bar.run.length; b++) {
      const r = bar.run[b];
      if (run.workload[r] !== chosen || run.end[r] <= view.t0 || run.start[r] >= view.t1) continue;
      const left = Math.max(GUTTER, x(run.start[r])), end = Math.min(GUTTER + width(), x(run.end[r]));
      const top = Math.max(0, y(bar.row[b])), bottom = Math.min(height(), y(bar.row[b] + bar.rows[b]));
      if (bottom > top) pen.strokeRect(left, top, Math.max(2, end - left), Math.max(2, bottom - top));
    }
  }

  const STEPS_S = [60, 300, 900, 3600, 7200, 21600, 43200, 86400, 172800, 432000, 864000, 2592000];

  function frame() {
    pen.fillStyle = colour("paper");
    pen.fillRect(0, height(), canvas.clientWidth, AXIS);
    pen.fillRect(0, 0, GUTTER, canvas.clientHeight);
    pen.fillStyle = colour("muted");
    pen.font = "12px " + getComputedStyle(document.body).fontFamily;
    const span = view.t1 - view.t0, most = Math.max(2, width() / 110);
    const step = STEPS_S.find((s) => span / s <= most) || STEPS_S.at(-1);
    const offset = packed.origin === null ? 0 : packed.origin % step;
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    for (let t = Math.ceil((view.t0 + offset) / step) * step - offset; t <= view.t1; t += step) {
      const label = clock(t, step >= 86400), half = pen.measureText(label).width / 2;
      const at = Math.min(Math.max(x(t), GUTTER + half), GUTTER + width() - half);
      pen.fillRect(x(t), height(), 1, 5);
      pen.fillText(label, at, height() + 18);
    }
    places();
    if (packed.now !== null && packed.now >= view.t0 && packed.now <= view.t1) {
      pen.fillStyle = colour("ink");
      pen.fillRect(x(packed.now) - 1, 0, 2, height());
      pen.fillText("now", x(packed.now), height() + 18);
    }
  }

  function places() {
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const tall = (i) => nodeGpus[i] * height() / (view.r1 - view.r0);
    let last = -99;
    for (let i = 0; i < nodeNames.length; i++) {
      const top = y(firstRow[i]);
      if (top + tall(i) < 0 || top > height()) continue;
      const named = tall(i) >= 12, begins = i === 0 || nodePlaces[i] !== nodePlaces[i - 1];
      if (begins && top > 0) pen.fillRect(GUTTER - 6, top, 6, 1);
      const at = Math.max(7, named ? top + tall(i) / 2 : top + 7);
      if ((named || begins) && at - last >= 12 && at < height()) {
        pen.fillText(short(named ? nodeNames[i] : nodePlaces[i]), GUTTER - 8, at);
        last = at;
      }
    }
  }

  function short(text) {
    return text.length > 10 ? "…" + text.slice(-9) : text;
  }

  // --- what is under the pointer ----------------------------------------------------------------------------

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const time = view.t0 + (event.clientX - box.left - GUTTER) / width() * (view.t1 - view.t0);
    const row = view.r0 + (event.clientY - box.top) / height() * (view.r1 - view.r0);
    const slack = (view.t1 - view.t0) / width() * 2;
    let best = -1, nearest = Infinity;
    for (let b = 0; b < bar.run.length; b++) {
      const r = bar.run[b];
      if (row < bar.row[b] || row >= bar.row[b] + bar.rows[b]) continue;
      const away = Math.max(run.start[r] - time, time - run.end[r], 0);
      if (away <= slack && away < nearest) { best = r; nearest = away; }
    }
    return { time, row, run: best };
  }

  function tell(event) {
    const { time, row, run: r } = under(event);
    let n = firstRow.length - 1;
    while (n > 0 && firstRow[n] > row) n--;
    const spot = `${clock(time, false)}, ${nodeNames[n]}`;
    if (r < 0) { where.textContent = spot + ": free"; return; }
    const w = run.workload[r], kind = run.allocated[r] ? "" : ", unallocated";
    where.textContent = `${spot}: ${packed.ids[w]}, ${payer(w)}, ${size(w)}${kind}`;
  }

  function choose(w) {
    chosen = w;
    life.hidden = false;
    life.dataset.workload = packed.ids[w];
    const list = element("ol");
    for (const { at, text, hit } of story(w)) {
      list.append(element("li", `${clock(at, false)}: ${text}`, hit ? "hit" : ""));
    }
    const about = `${size(w)} for ${payer(w)}; ${packed.state[w]}`;
    life.replaceChildren(element("h3", packed.ids[w]), element("div", about), list);
    draw();
  }

  function goTo(w) {
    let first = -1;
    for (let r = 0; r < run.workload.length && first < 0; r++) if (run.workload[r] === w) first = r;
    if (first >= 0) {
      const b = bar.run.indexOf(first), long = Math.max(run.end[first] - run.start[first], 3600);
      const middle = bar.row[b] + bar.rows[b] / 2, rows = Math.max(bar.rows[b], 32);
      view = { t0: run.start[first] - long, t1: run.end[first] + long, r0: middle - rows, r1: middle + rows };
    }
    choose(w);
  }

  // --- hands ----------------------------------------------------------------------------------------------

  let grip = null;
  canvas.addEventListener("pointerdown", (event) => {
    grip = { x: event.clientX, y: event.clientY, view: { ...view }, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!grip) { tell(event); return; }
    const dx = event.clientX - grip.x, dy = event.clientY - grip.y;
    if (Math.abs(dx) + Math.abs(dy) < 4 && !grip.moved) return;
    grip.moved = true;
    const time = dx / width() * (view.t1 - view.t0), rows = dy / height() * (view.r1 - view.r0);
    view = { t0: grip.view.t0 - time, t1: grip.view.t1 - time, r0: grip.view.r0 - rows, r1: grip.view.r1 - rows };
    requestAnimationFrame(draw);
  });
  canvas.addEventListener("pointerup", (event) => {
    const moved = grip && grip.moved;
    grip = null;
    if (moved) return;
    const { run: r } = under(event);
    if (r >= 0) { choose(run.workload[r]); return; }
    chosen = -1;
    life.hidden = true;
    draw();
  });
  canvas.addEventListener("pointercancel", () => { grip = null; });
  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas && !event.ctrlKey) return;  // else the page could not be scrolled past
    event.preventDefault();
    const box = canvas.getBoundingClientRect(), factor = Math.exp(Math.sign(event.deltaY) * 0.25);
    const atX = (event.clientX - box.left - GUTTER) / width(), atY = (event.clientY - box.top) / height();
    if (event.shiftKey) zoom(1, factor, atX, atY); else zoom(factor, factor, atX, atY);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const time = (view.t1 - view.t0) / 8, rows = (view.r1 - view.r0) / 8;
    const shifts = { ArrowLeft: [-time, 0], ArrowRight: [time, 0], ArrowUp: [0, -rows], ArrowDown: [0, rows] };
    if (event.key === "+" || event.key === "=") zoom(0.5, 0.5, 0.5, 0.5);
    else if (event.key === "-") zoom(2, 2, 0.5, 0.5);
    else if (event.key === "0") { view = whole(); draw(); }
    else if (shifts[event.key]) {
      const [dt, dr] = shifts[event.key];
      view = { t0: view.t0 + dt, t1: view.t1 + dt, r0: view.r0 + dr, r1: view.r1 + dr };
      draw();
    } else return;
    event.preventDefault();
  });
  find.addEventListener("change", () => {
    const w = packed.ids.indexOf(find.value.trim());
    if (w >= 0) goTo(w); else where.textContent = find.value ? `There is no workload ${find.value}` : "";
  });

  report.made.set(part, table);
  report.redraws.push(draw);
  new ResizeObserver(() => { if (place.clientWidth !== canvas.width / (devicePixelRatio || 1)) draw(); }).observe(place);
}
