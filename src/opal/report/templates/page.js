"use strict";
(() => {
  const POINTS = 700; // of the loss curve at any zoom
  const NARROW = 520; // pixels: the legend goes below the plot
  const drawn = new Map();

  // A link to a decision opens it.
  const openTarget = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") { target.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", openTarget);
  openTarget();
  if (typeof Plotly === "undefined") return;

  const styles = getComputedStyle(document.documentElement);
  const named = (text) => text.replace(/^var\((--[\w-]+)\)$/, (_, name) => styles.getPropertyValue(name).trim());
  const painted = (value) => {
    if (typeof value === "string") return value.startsWith("var(") ? named(value) : value;
    if (Array.isArray(value)) return value.length && typeof value[0] === "object" ? value.map(painted) : value;
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, painted(item)]));
  };

  const unpacked = (text, Kind) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const read = Kind === Float32Array ? view.getFloat32 : view.getUint32;
    return Kind.from({ length: bytes.length / 4 }, (_, place) => read.call(view, 4 * place, true));
  };

  // The loss curve between two updates: joined to at most POINTS points, each with the least and greatest of its updates.
  class Losses {
    constructor(curve) {
      this.size = curve.size;
      this.means = unpacked(curve.means, Float32Array);
      this.lows = curve.lows ? unpacked(curve.lows, Float32Array) : this.means;
      this.highs = curve.highs ? unpacked(curve.highs, Float32Array) : this.means;
      this.indices = curve.indices ? unpacked(curve.indices, Uint32Array)
        : Uint32Array.from(this.means, (_, place) => place + curve.first);
    }
    at(place) { return this.indices[place] * this.size + (this.size + 1) / 2; }
    place(update) { // of the first bucket at or after an update
      let low = 0, high = this.indices.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.at(middle) < update) low = middle + 1; else high = middle;
      }
      return low;
    }
    between(from, to) {
      const start = Math.max(this.place(from) - 1, 0), end = Math.min(this.place(to) + 1, this.indices.length);
      const step = Math.max(Math.ceil((end - start) / POINTS), 1);
      const x = [], mean = [], low = [], high = [];
      let before = null;
      for (let place = start; place < end; place += step) {
        const stop = Math.min(place + step, end);
        if (before !== null && this.indices[place] - before > 1) { // updates without a loss
          x.push(this.at(place) - this.size); mean.push(null); low.push(null); high.push(null);
        }
        let sum = 0, least = Infinity, greatest = -Infinity;
        for (let i = place; i < stop; i++) {
          sum += this.means[i];
          if (this.lows[i] < least) least = this.lows[i];
          if (this.highs[i] > greatest) greatest = this.highs[i];
        }
        x.push((this.at(place) + this.at(stop - 1)) / 2);
        mean.push(sum / (stop - place)); low.push(least); high.push(greatest);
        before = this.indices[stop - 1];
      }
      return { x, mean, low, high, updates: step * this.size };
    }
  }

  // One polygon for each stretch without a gap: along the greatest values and back along the least.
  const band = (x, low, high) => {
    const area = { x: [], y: [] };
    for (let start = 0; start < x.length; start++) {
      let end = start;
      while (end < x.length && low[end] !== null) end++;
      if (end === start) continue;
      if (area.x.length) { area.x.push(null); area.y.push(null); }
      for (let i = start; i < end; i++) { area.x.push(x[i]); area.y.push(high[i]); }
      for (let i = end - 1; i >= start; i--) { area.x.push(x[i]); area.y.push(low[i]); }
      start = end;
    }
    return area;
  };

  // The numbers of the applied decisions above the plot, as many as fit.
  const numbers = (curve, from, to, width) => {
    const shown = [];
    let last = -Infinity;
    for (const [update, number] of curve.numbers) {
      if (update < from || update > to) continue;
      const pixel = (update - from) / (to - from) * width;
      if (pixel - last < 10 + 8 * String(number).length) continue;
      last = pixel;
      shown.push({ x: update, y: 1, xref: "x", yref: "paper", yanchor: "bottom", showarrow: false, text: `<b>${number}</b>`,
        font: { color: named("var(--applied)"), size: 12 }, captureevents: true, hovertext: `decision ${number}`, name: String(number) });
    }
    return shown;
  };

  const drawLosses = (plot, { curve, losses }, from, to) => {
    const { x, mean, low, high, updates } = losses.between(from, to);
    const finite = high.filter((value) => value !== null);
    const top = finite.length ? finite.reduce((a, b) => Math.max(a, b)) : 1;
    const area = band(x, low, high);
    const width = plot.clientWidth - 66;
    const points = plot.closest("figure").querySelector(".tools .resolution");
    points.textContent = updates === 1 ? "Each point is one update." : `Each point is up to ${updates.toLocaleString("en")} updates: ` +
      "the line is their mean, the band reaches from the least to the greatest. Zoom in for fewer.";
    return Plotly.update(plot, { x: [area.x, x, curve.bad], y: [area.y, mean, curve.bad.map(() => top)],
      visible: [updates > 1, true, curve.bad.length > 0] }, { annotations: numbers(curve, from, to, width) });
  };

  const watchLosses = (plot, part) => {
    const whole = part.figure.layout.xaxis.range;
    let shown = "";
    const draw = () => {
      const axis = plot.layout.xaxis;
      if (axis.autorange) { axis.range = [...whole]; axis.autorange = false; }
      const [from, to] = axis.range.map(Number);
      const now = `${from} ${to} ${plot.clientWidth}`;
      if (now !== shown) { shown = now; drawLosses(plot, part, from, to); }
    };
    plot.on("plotly_relayout", draw);
    plot.on("plotly_clickannotation", (event) => { location.hash = `decision-${event.annotation.name}`; });
    part.redraw = draw;
    const figure = plot.closest("figure"), button = figure.querySelector(".tools .log-switch");
    figure.querySelector(".tools").hidden = false;
    button.hidden = !part.curve.positive;
    button.onclick = () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      Plotly.relayout(plot, { "yaxis.type": on ? "log" : "linear", "yaxis.autorange": true });
    };
    draw();
  };

  const options = {
    responsive: true, displaylogo: false, displayModeBar: true, doubleClick: "reset", showTips: false,
    modeBarButtons: [["zoomIn2d", "zoomOut2d", "pan2d", "resetScale2d", "toImage"]],
  };
  const touch = matchMedia("(pointer: coarse)").matches; // a finger scrolls the page; the buttons zoom

  const draw = (plot) => {
    const part = JSON.parse(document.getElementById(plot.dataset.figure).textContent);
    const layout = painted(part.figure.layout);
    if (touch) layout.dragmode = false;
    if (plot.clientWidth < NARROW) Object.assign(layout.legend, { y: -0.14, yanchor: "top" });
    const small = plot.classList.contains("small");
    const looks = small ? { ...options, displayModeBar: false } : options;
    layout.modebar = { color: named("var(--soft)"), activecolor: named("var(--accent)"), bgcolor: "rgba(0,0,0,0)" };
    Plotly.newPlot(plot, painted(part.figure.data), layout, looks).then(() => {
      if (!part.curve) return;
      part.losses = new Losses(part.curve);
      watchLosses(plot, part);
    });
    drawn.set(plot, part);
  };

  addEventListener("resize", () => drawn.forEach((part) => part.redraw?.()));

  // Charts are drawn when they come near the screen, and all of them before printing.
  const plots = [...document.querySelectorAll(".plot")];
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "600px" });
  plots.forEach((plot) => watcher.observe(plot));
  addEventListener("beforeprint", () => plots.filter((plot) => !drawn.has(plot)).forEach(draw));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const plot of drawn.keys()) { Plotly.purge(plot); draw(plot); }
  });
})();
