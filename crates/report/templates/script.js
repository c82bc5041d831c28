// Interactive extras; the page is complete without them.
(() => {
  "use strict";
  const root = document.documentElement;
  root.classList.add("script");

  const toggle = (n) => {
    const items = document.querySelectorAll(`.legend li[data-n="${n}"]`);
    const shown = items[0].getAttribute("aria-pressed") === "false";
    for (const item of items) item.setAttribute("aria-pressed", String(shown));
    for (const part of document.querySelectorAll(`.chart .n${n}`)) part.classList.toggle("off", !shown);
  };
  for (const item of document.querySelectorAll(".legend li")) {
    item.setAttribute("role", "button");
    item.setAttribute("tabindex", "0");
    item.setAttribute("aria-pressed", "true");
    item.addEventListener("click", () => toggle(item.dataset.n));
    item.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      toggle(item.dataset.n);
    });
  }

  const save = (name, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const picture = (svg) => {
    const copy = svg.cloneNode(true);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
    style.textContent = [...document.querySelectorAll("style")].map((one) => one.textContent).join("\n") + "svg { background: var(--paper); }";
    copy.prepend(style);
    return new XMLSerializer().serializeToString(copy);
  };
  for (const details of document.querySelectorAll(".figures-numbers")) {
    const figure = details.closest("figure");
    const caption = figure.querySelector("figcaption");
    const name = (caption ? caption.textContent : "chart").toLowerCase().replace(/[^a-z0-9]+/g, "-");
    const rows = () => [...details.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => quoted(cell.textContent)).join(",")).join("\n") + "\n";
    for (const [label, act] of [
      ["Save as CSV", () => save(name + ".csv", "text/csv", rows())],
      ["Save as SVG", () => save(name + ".svg", "image/svg+xml", picture(figure.querySelector("svg")))],
    ]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.addEventListener("click", act);
      details.append(button);
    }
  }

  const { trials } = JSON.parse(document.getElementById("data").textContent);
  const select = document.getElementById("trial");
  if (!select || trials.length === 0 || typeof uPlot !== "function") return;
  const plots = document.getElementById("plots");
  const still = document.getElementById("still");
  const moving = document.getElementById("moving");
  trials.forEach((trial, place) => select.add(new Option(trial.label, place)));
  const first = trials.findIndex((trial) => trial.label === still.querySelector(".note").textContent);
  select.value = Math.max(first, 0);

  const value = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const short = (number) => {
    const size = Math.abs(number);
    for (const [scale, prefix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (size >= scale) return +(number / scale).toPrecision(3) + " " + prefix;
    return String(+number.toPrecision(3));
  };
  const width = () => Math.max(plots.clientWidth, 200);
  let shown = [];

  const draw = () => {
    for (const plot of shown) plot.destroy();
    const trial = trials[select.value];
    const colour = value(`--c${trial.contestant % 8}`);
    const axis = { stroke: value("--soft"), grid: { stroke: value("--grid"), width: 1 }, ticks: { stroke: value("--grid"), width: 1 } };
    // All series of a trial to the same end, and zoomed together.
    const end = Math.max(...trial.series.map((series) => series.at.at(-1) ?? 0));
    shown = trial.series.filter((series) => series.at.length > 1).map((series) => new uPlot({
      title: series.title,
      width: width(),
      height: 260,
      cursor: { drag: { x: true, y: false }, sync: { key: "time" } },
      scales: { x: { time: false }, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.08 : 1] } },
      axes: [{ ...axis, label: "seconds", labelSize: 22 }, { ...axis, size: 64, values: (_, ticks) => ticks.map(short) }],
      series: [
        { label: "at", value: (_, at) => (at == null ? "" : at.toFixed(3) + " s") },
        { label: "value", stroke: colour, width: 1.6, points: { show: false }, value: (_, v) => (v == null ? "" : short(v)) },
      ],
    }, [[0, ...series.at, end], [null, ...series.values, null]], plots));
  };
  still.hidden = true;
  moving.hidden = false;
  draw();
  select.addEventListener("change", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  let waiting = 0;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { for (const plot of shown) plot.setSize({ width: width(), height: 260 }); }, 100);
  });
})();
