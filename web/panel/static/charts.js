// Charts of what an application used, drawn by uPlot (static/vendor). The summary
// and the table beside them say the same, so readers of the screen skip them.
"use strict";

(() => {
  const boxes = document.querySelectorAll("[data-plot]");
  if (!boxes.length || !window.uPlot) return;
  const height = 170, lang = document.documentElement.lang;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  let data, charts = [], appended = 0;

  const long = () => data.to - data.from;
  function time(seconds) {
    const days = long() > 2 * 86400;
    return new Date(seconds * 1000).toLocaleString(lang, days ? { day: "2-digit", month: "2-digit" } : { hour: "2-digit", minute: "2-digit", hour12: false });
  }

  const kinds = {
    ram: {
      unit: "MB",
      columns: () => [data.at, data.ram, data.most, data.limit],
      series: () => [
        { stroke: colour("main"), width: 2, fill: colour("plot-fill"), points: { size: 4 } },
        { stroke: colour("plot-peak"), width: 1, points: { size: 4 } },
        { stroke: colour("bad"), width: 1.5, dash: [6, 4], points: { show: false } },
      ],
      top: (most) => most * 1.08,
    },
    cpu: {
      unit: "%",
      columns: () => [data.at, data.cpu],
      series: () => [{ stroke: colour("main"), width: 2, fill: colour("plot-fill"), points: { size: 4 } }],
      top: (most) => Math.max(5, most * 1.15),
    },
  };

  // marks draws a line for each time that it was killed for its RAM.
  function marks(chart) {
    const { ctx, bbox } = chart, ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("bad");
    ctx.lineWidth = ratio;
    ctx.setLineDash([]);
    ctx.font = `600 ${11 * ratio}px system-ui, sans-serif`;
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
          { ...axis, size: 64, values: (_, all) => all.map((v) => `${v.toLocaleString(lang)} ${kind.unit}`) },
        ],
        series: [{}, ...kind.series()],
        hooks: { draw: box.dataset.plot === "ram" ? [marks] : [] },
      }, kind.columns(), box);
    });
  }

  // peak keeps the summaries true.
  function peak(now) {
    for (const box of document.querySelectorAll("[data-peak]")) {
      const kind = box.dataset.peak;
      if (now[kind] <= box.dataset.value) continue;
      box.dataset.value = now[kind];
      box.querySelector("span").textContent = now.words[kind + "-now"];
      const at = box.querySelector("time");
      at.dateTime = new Date(now.at * 1000).toISOString();
      at.textContent = new Date(now.at * 1000).toLocaleTimeString(lang, { hour: "2-digit", minute: "2-digit", hour12: false });
    }
  }

  // append adds what is used now; points closer than two of the screen are one.
  function append(now) {
    if (!data) return;
    const columns = [data.at, data.ram, data.most, data.limit, data.cpu];
    const values = [now.at, now.ram, now.ram, now.limit, now.cpu];
    const close = data.at.length > 0 && now.at - appended < long() / 1800;
    if (data.at.length && data.at.at(-1) >= now.at && !close) return;
    columns.forEach((column, i) => close ? column.splice(-1, 1, values[i]) : column.push(values[i]));
    if (!close) appended = now.at;
    data.from += now.at - data.to;
    data.to = now.at;
    while (data.at.length && data.at[0] < data.from) for (const column of columns) column.shift();
    peak(now);
    charts.forEach((chart, i) => chart.setData(kinds[boxes[i].dataset.plot].columns()));
  }

  async function load() {
    try {
      const answer = await fetch(boxes[0].dataset.url, { credentials: "same-origin" });
      if (!answer.ok || answer.redirected) return;
      data = await answer.json();
      appended = 0;
      draw();
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
  load();
})();
