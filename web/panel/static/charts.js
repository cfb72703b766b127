// Charts of what an application or the host used, drawn by uPlot (static/vendor). The summaries
// and the table beside them say the same, so readers of the screen skip them.
"use strict";

(() => {
  const boxes = document.querySelectorAll("[data-plot]");
  if (!boxes.length || !window.uPlot) return;
  const height = 170, lang = document.documentElement.lang;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  let data, charts = [], appended = 0, before;

  const long = () => data.to - data.from;
  function time(seconds) {
    const days = long() > 2 * 86400;
    return new Date(seconds * 1000).toLocaleString(lang, days ? { day: "2-digit", month: "2-digit" } : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  }

  // Values of an axis with their unit, which is the same for all of them.
  const number = (v) => v.toLocaleString(lang, { maximumFractionDigits: 2 });
  const scaled = (base, units) => (_, all) => {
    let i = 0, of = 1;
    for (; i < units.length - 1 && all.at(-1) >= base * of; i++) of *= base;
    return all.map((v) => `${number(v / of)} ${units[i]}`);
  };
  const each = (value) => (_, all) => all.map(value);
  const megabytes = scaled(1024, ["MB", "GB", "TB"]);
  const percent = each((v) => `${number(v)} %`);
  const rate = scaled(1024, ["B/s", "KB/s", "MB/s", "GB/s"]);
  const lasting = scaled(1000, ["ms", "s"]);
  const binary = Array.from({ length: 50 }, (_, i) => 2 ** i); // steps of an axis

  const area = () => ({ stroke: colour("main"), width: 2, fill: colour("plot-fill"), points: { size: 4 } });
  const thin = () => ({ stroke: colour("plot-peak"), width: 1, points: { show: false } });
  const line = (name, dash) => ({ stroke: colour(name), width: 1.75, dash, points: { show: false } });
  const kinds = {
    ram: {
      value: megabytes, steps: binary,
      columns: () => [data.at, data.ram, data.most, data.limit],
      series: () => [area(), thin(), line("bad", [6, 4])],
      top: (most) => most * 1.08,
    },
    cpu: { value: percent, columns: () => [data.at, data.cpu, data.top], series: () => [area(), thin()], top: (most) => Math.max(5, most * 1.15) },
    net: { value: rate, steps: binary, columns: () => [data.at, data.in, data.out], series: () => [area(), line("c5", [6, 4])], top: (most) => Math.max(1024, most * 1.15) },
    disk: { value: megabytes, steps: binary, columns: () => [data.at, data.disk], series: () => [area()], top: (most) => most * 1.15 },
    starts: {
      value: each(number),
      columns: () => [data.at, data.starts],
      series: () => [{ stroke: colour("main"), fill: colour("main"), width: 0, points: { show: false }, paths: window.uPlot.paths.bars({ size: [0.8, 12, 3] }) }],
      top: (most) => Math.max(3, most + 1),
    },
    answers: {
      value: each(number),
      columns: () => [data.at, ...data.groups],
      series: () => [line("good"), line("main", [2, 3]), line("busy", [8, 4]), line("bad", [12, 3, 2, 3])],
      top: (most) => Math.max(1, most * 1.15),
    },
    p95: { value: lasting, columns: () => [data.at, data.p95], series: () => [area()], top: (most) => Math.max(10, most * 1.15) },
  };

  // marks draws a line for each time that it was killed for its RAM.
  function marks(chart) {
    const { ctx, bbox } = chart, ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("bad");
    ctx.lineWidth = ratio;
    ctx.setLineDash([]);
    for (const at of data.kills) {
      const x = chart.valToPos(at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(x - 5 * ratio, bbox.top);
      ctx.lineTo(x + 5 * ratio, bbox.top);
      ctx.lineTo(x, bbox.top + 8 * ratio);
      ctx.fill();
    }
    ctx.restore();
  }

  function draw() {
    for (const chart of charts) chart.destroy();
    for (const box of boxes) box.hidden = false;
    charts = Array.from(boxes, (box) => {
      const kind = kinds[box.dataset.plot];
      const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
      return new window.uPlot({
        width: box.clientWidth, height, padding: [8, 20, 0, 0],
        legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } },
        scales: {
          x: { range: () => [data.from, data.to] },
          y: { range: (_, low, most) => [0, kind.top(most || 1)] },
        },
        axes: [
          { ...axis, size: 28, space: 60, values: (_, all) => all.map(time) },
          { ...axis, size: 76, values: kind.value, ...(kind.steps && { incrs: kind.steps }) },
        ],
        series: [{}, ...kind.series()],
        hooks: { draw: ["ram", "starts"].includes(box.dataset.plot) ? [marks] : [] },
      }, kind.columns(), box);
    });
  }

  const show = () => charts.forEach((chart, i) => chart.setData(kinds[boxes[i].dataset.plot].columns()));

  // peak keeps the summaries true.
  function peak(now) {
    for (const box of document.querySelectorAll("[data-peak]")) {
      const kind = box.dataset.peak;
      if (now[kind] <= box.dataset.value) continue;
      box.dataset.value = now[kind];
      box.querySelector("span").textContent = now.words[kind + "-now"];
      const at = box.querySelector("time");
      at.dateTime = new Date(now.at * 1000).toISOString();
      at.textContent = new Date(now.at * 1000).toLocaleTimeString(lang, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    }
  }

  const columns = () => [data.at, data.ram, data.most, data.limit, data.cpu, data.top, data.in, data.out, data.disk, data.starts, data.p95, ...data.groups];

  // append adds what is used now; points closer than two of the screen are one. What is measured
  // once a minute comes with the next look.
  function append(now) {
    const last = before;
    before = now;
    if (!data) return;
    const past = last ? now.at - last.at : 0;
    const gone = (name) => past > 0 && past < 10 && now[name] >= last[name] ? (now[name] - last[name]) / past : null;
    const values = [now.at, now.ram, now.ram, now.limit, now.cpu, now.cpu, gone("in"), gone("out"), data.disk.at(-1) ?? null, null, null, null, null, null, null];
    const close = data.at.length > 0 && now.at - appended < long() / 1800;
    if (data.at.length && data.at.at(-1) >= now.at && !close) return;
    columns().forEach((column, i) => close ? column.splice(-1, 1, values[i]) : column.push(values[i]));
    if (!close) appended = now.at;
    data.from += now.at - data.to;
    data.to = now.at;
    while (data.at.length && data.at[0] < data.from) for (const column of columns()) column.shift();
    peak(now);
    show();
  }

  async function load() {
    try {
      const answer = await fetch(boxes[0].dataset.url, { credentials: "same-origin" });
      if (!answer.ok || answer.redirected) return;
      const old = data && columns();
      data = await answer.json();
      const from = (data.at.at(-1) ?? 0) + 60; // what was watched since the newest minute stays
      if (old) columns().forEach((column, i) => column.push(...old[i].filter((_, n) => old[0][n] >= from)));
      if (charts.length) show();
      else draw();
    } catch {
      // There is no server now; the stream brings the charts back.
    }
  }

  new ResizeObserver(() => charts.forEach((chart, i) => chart.setSize({ width: boxes[i].clientWidth, height }))).observe(boxes[0]);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => data && draw());
  document.addEventListener("live:figures", (event) => append(event.detail));
  let first = true;
  document.addEventListener("live:begun", () => { // what was missed while nobody looked
    if (!first) load();
    first = false;
  });
  document.addEventListener("live:changed", load);
  setInterval(() => document.hidden || load(), 60e3); // a point is kept for each minute
  load();
})();
