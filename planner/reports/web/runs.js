"use strict";
// The runs behind a timeline: compact arrays unpacked, and what became of each workload in words.
function unpacked(packed) {
  const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array };

  function array(text, kind) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return new KINDS[kind](bytes.buffer);
  }

  function arrays(group, kinds) {
    return Object.fromEntries(Object.entries(kinds).map(([name, kind]) => [name, array(group[name], kind)]));
  }

  const job = arrays(packed, { allocation: "u2", gpus: "u4", submitted: "i4", over: "i4" });
  const run = arrays(packed.run, {
    workload: "u4", start: "i4", until: "i4", end: "i4", ended: "u1", allocated: "u1", lost: "u4",
  });
  const bar = arrays(packed.bar, { run: "u4", row: "u4", rows: "u4" });
  const hold = arrays(packed.hold, { workload: "u4", from: "i4", until: "i4", row: "u4", rows: "u4" });
  const ENDS = ["", "finish", "preempt", "cancel"];
  const payer = (w) => packed.allocations[job.allocation[w]];
  const size = (w) => `${job.gpus[w]} GPU${job.gpus[w] === 1 ? "" : "s"}`;

  // --- words ----------------------------------------------------------------------------------------------

  const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

  function clock(time, coarse) {
    const two = (n) => String(Math.floor(n)).padStart(2, "0");
    if (packed.origin === null) {
      const day = "day " + Math.floor(time / 86400);
      return coarse ? day : `${day}, ${two(time % 86400 / 3600)}:${two(time % 3600 / 60)}`;
    }
    const when = new Date((packed.origin + time) * 1000), day = `${MONTHS[when.getUTCMonth()]} ${when.getUTCDate()}`;
    return coarse ? day : `${day}, ${two(when.getUTCHours())}:${two(when.getUTCMinutes())}`;
  }

  function hours(seconds) {
    return seconds < 5400 ? Math.round(seconds / 60) + " min" : (seconds / 3600).toFixed(1) + " h";
  }

  // What happened to a workload, in order: a moment and a sentence each; a preemption is a hit.
  function story(w) {
    const steps = [{ at: job.submitted[w], text: "submitted" }], told = new Set();
    for (let i = 0; i < hold.workload.length; i++) {
      if (hold.workload[i] !== w || told.has(hold.from[i])) continue;
      told.add(hold.from[i]);
      steps.push({ at: hold.from[i], text: `promised a start at ${clock(hold.until[i], false)}` });
    }
    let last = -1;
    for (let r = 0; r < run.workload.length; r++) {
      if (run.workload[r] !== w) continue;
      steps.push(...runSteps(r));
      last = Math.max(last, run.end[r]);
    }
    if (job.over[w] > last) steps.push({ at: job.over[w], text: "cancelled while it waited" });
    return steps.sort((a, b) => a.at - b.at);
  }

  function runSteps(r) {
    const guard = run.until[r] - run.start[r];
    const kind = run.allocated[r] ? `protected for ${hours(guard)}` : "unallocated, never protected";
    const out = [{ at: run.start[r], text: `started, ${kind}` }], at = run.end[r], ran = hours(at - run.start[r]);
    if (ENDS[run.ended[r]] === "finish") out.push({ at, text: `finished after ${ran}` });
    if (ENDS[run.ended[r]] === "cancel") out.push({ at, text: `cancelled after ${ran}` });
    if (ENDS[run.ended[r]] === "preempt") out.push({ at, hit: true, text: `preempted after ${ran}${why(r)}` });
    return out;
  }

  function why(r) {
    const gainers = packed.gainers[r] || [], lost = run.lost[r] / 3600;
    const names = gainers.slice(0, 5).map((g) => `${packed.ids[g]} (${payer(g)})`);
    const more = gainers.length > 5 ? ` and ${gainers.length - 5} more` : "";
    const reason = names.length ? `made room for ${names.join(", ")}${more}` : "a node failed, or a promise fell due";
    return `: ${reason}; ${lost.toFixed(1)} GPU-hours lost`;
  }

  function table() {
    return {
      workload: Array.from(run.workload, (w) => packed.ids[w]),
      allocation: Array.from(run.workload, payer),
      gpus: Array.from(run.workload, (w) => job.gpus[w]),
      start_s: [...run.start],
      protected_s: [...run.until],
      end_s: [...run.end],
      ended: Array.from(run.ended, (e) => ENDS[e]),
      lost_gpu_s: [...run.lost],
      made_room_for: Array.from(run.start, (_, r) => (packed.gainers[r] || []).map((g) => packed.ids[g]).join(" ")),
    };
  }

  const isHit = (r) => ENDS[run.ended[r]] === "preempt";
  return { job, run, bar, hold, payer, size, clock, story, table, isHit };
}
