// SPDX-License-Identifier: MIT OR Apache-2.0
// Draws the figures of the page. The data are in #figures; nothing is computed from them but places
// on the screen, and nothing is fetched.
(function () {
  "use strict";

  // Okabe and Ito's colours, told apart with any colour vision; after the eight events, the causes.
  const LIGHT = ["#7a8591", "#4c6a88", "#1c2733", "#0072b2", "#2f9bd6", "#009e73", "#d55e00",
    "#a04f84", "#d55e00", "#a04f84", "#b08a00", "#7a8591", "#b3261e", "#56707f", "#8f5a2b"];
  const DARK = ["#9aa7b5", "#88a6c6", "#f0f3f6", "#4aa8e8", "#8fd0f5", "#35c79a", "#ff8f4a",
    "#de97c4", "#ff8f4a", "#de97c4", "#e6c94a", "#9aa7b5", "#ff8f87", "#a8bcc8", "#d0a071"];
  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";
  // Beyond this many points a canvas is quicker than a vector drawing.
  const MANY = 4000;

  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const charts = [];

  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const narrow = () => window.innerWidth < 640;

  function element(tag, properties, ...children) {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  }
  const escape = (text) => String(text).replace(/[&<>"']/g,
    (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);

  function number(value) {
    const size = Math.abs(value);
    if (value === 0) return "0";
    if (size >= 1e5 || size < 1e-3) return value.toExponential(1);
    return String(Number(value.toPrecision(size >= 1000 ? 4 : 3)));
  }
  function kib(value) {
    const units = [[1048576, "GiB"], [1024, "MiB"], [1, "KiB"]];
    const [by, unit] = units.find(([by]) => value >= by) || [1, "KiB"];
    return number(value / by) + " " + unit;
  }
  function written(value, unit) {
    if (unit === "kib") return kib(value);
    return unit === "share" ? number(100 * value) + " %" : number(value);
  }

  // Sizes are drawn by their binary logarithm, so that the axis has a tick at every doubling.
  const onAxis = (x, unit) => unit === "kib" ? Math.log2(x) : x;
  const offAxis = (at, unit) => unit === "kib" ? Math.pow(2, at) : at;

  // The reader's choices for a figure.
  function initial(figure) {
    return {
      variant: 0, view: 0, log: figure.views[0].log,
      on: new Set(figure.statistics.filter(([, on]) => on).map(([name]) => name)),
    };
  }

  function colours(dark) {
    return {
      ink: css("--ink"), dim: css("--dim"), grid: css("--chart-grid"), card: css("--card"),
      series: dark ? DARK : LIGHT,
    };
  }

  function drawn(value, log) {
    return value === null || value === undefined || (log && value <= 0) ? null : value;
  }

  function base(figure, state, look) {
    return {
      animation: false, textStyle: { fontFamily: FONT, color: look.ink },
      backgroundColor: "transparent", aria: { enabled: true },
      toolbox: { itemSize: 0, right: -50, feature: { dataZoom: { filterMode: "none", xAxisIndex: 0, yAxisIndex: figure.kind === "bars" ? false : 0 } } },
      legend: {
        type: "plain", top: 0, left: 0, itemWidth: 18, itemHeight: 9, itemGap: narrow() ? 8 : 14,
        textStyle: { color: look.ink, fontSize: narrow() ? 11 : 12.5 }, inactiveColor: look.grid,
      },
    };
  }

  function axis(spec, log, look, extra) {
    return Object.assign({
      type: log ? "log" : "value", name: spec.name, nameLocation: "middle",
      nameTextStyle: { color: look.dim, fontSize: 12.5 },
      axisLine: { show: true, lineStyle: { color: look.dim } }, axisTick: { show: true },
      axisLabel: { color: look.dim, hideOverlap: true, formatter: (value) => written(value, spec.unit) },
      splitLine: { lineStyle: { color: look.grid } }, minorSplitLine: { show: false },
    }, extra);
  }

  function extent(values) {
    const known = values.filter((value) => value !== null && Number.isFinite(value));
    return known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
  }

  // Room for the legend: about how many lines its names take.
  function legendRows(names, width) {
    const each = narrow() ? 6.6 : 7.2;
    let rows = 1, used = 0;
    for (const name of names) {
      const wide = 34 + each * name.length;
      if (used + wide > width && used > 0) { rows += 1; used = 0; }
      used += wide;
    }
    return rows;
  }

  function curves(figure, state, look, width) {
    const view = figure.views[state.view], variant = figure.variants[state.variant];
    const shown = variant.series.filter((it) => !it.statistic || state.on.has(it.statistic)
      || figure.statistics.length === 0);
    const names = [...new Set(shown.map((it) => it.name))];
    const sizes = figure.x.unit === "kib";
    const xs = shown.flatMap((it) => it.points.map((point) => onAxis(point.x, figure.x.unit)));
    const ys = shown.flatMap((it) => it.points.map((p) => drawn(p.y[state.view], state.log)));
    const [left, right] = extent(xs);
    const series = shown.flatMap((it) => seriesOf(it, figure, state, look));
    const marks = figure.marks.concat(variant.marks || []).map((mark) => ({ label: mark.label, x: onAxis(mark.x, figure.x.unit) }))
      .filter((mark) => mark.x >= left && mark.x <= right);
    if (series.length && marks.length) series[0].markLine = markLine(marks, look);
    const [low, high] = extent(ys);
    const logX = figure.x.log && !sizes && left > 0;
    const every = right - left > 8 && narrow() ? 2 : 1;
    // Whole doublings at both ends; a cloud of lengths starts at 0.
    const ends = sizes ? { min: Math.floor(left - 0.4), max: Math.ceil(right + 0.4), interval: every }
      : logX ? { min: left / 1.25, max: right * 1.25 } : { min: left >= 0 ? 0 : null };
    return Object.assign(base(figure, state, look), {
      grid: { left: narrow() ? 24 : 32, right: 18, bottom: 34, top: 14 + 22 * legendRows(names, width) + (marks.length ? 14 : 0), containLabel: true },
      xAxis: axis(figure.x, logX, look, {
        nameGap: 30, ...ends,
        axisLabel: { color: look.dim, hideOverlap: true, showMinLabel: !logX && !sizes, showMaxLabel: !logX && !sizes,
          fontSize: narrow() ? 10.5 : 12,
          formatter: (at) => Number.isInteger(at) || !sizes ? written(offAxis(at, figure.x.unit), figure.x.unit) : "" },
      }),
      yAxis: axis(view, state.log, look, {
        nameGap: narrow() ? 38 : 46, scale: true,
        min: state.log ? Math.pow(10, Math.floor(Math.log10(Math.max(low, 1e-3)))) : null,
        max: state.log ? Math.pow(10, Math.ceil(Math.log10(Math.max(high, 1e-3)))) : null,
      }),
      tooltip: tooltip(figure, state, look),
      series,
    });
  }

  // Lines of one colour are told apart by their markers.
  const MARKERS = ["circle", "diamond", "rect", "roundRect"];
  function marker(it, figure, state) {
    if (it.statistic === "max") return "triangle";
    const alike = figure.variants[state.variant].series.filter((other) => other.colour === it.colour);
    const names = [...new Set(alike.map((other) => other.name))];
    return MARKERS[names.indexOf(it.name) % MARKERS.length];
  }

  function seriesOf(it, figure, state, look) {
    const colour = look.series[it.colour % look.series.length];
    const points = it.style === "points" || it.style === "hollow";
    const data = it.points.map((point) => ({
      value: [onAxis(point.x, figure.x.unit), drawn(point.y[state.view], state.log)], point, of: it,
    }));
    const main = {
      name: it.name, type: points ? "scatter" : "line", data, z: points ? 2 : 3,
      large: false, connectNulls: false, symbol: marker(it, figure, state),
      symbolSize: points ? (narrow() ? 4 : 5) : 6.5, showSymbol: true,
      itemStyle: it.style === "hollow" ? { color: "transparent", borderColor: colour, borderWidth: 1, opacity: .55 }
        : { color: colour, opacity: points ? .6 : 1 },
      lineStyle: { color: colour, width: it.style === "solid" ? 2 : 1.4,
        type: { dashed: [6, 4], dotted: [2, 3] }[it.style] || "solid" },
      emphasis: { focus: "series", blurScope: "coordinateSystem" }, blur: { lineStyle: { opacity: .2 }, itemStyle: { opacity: .15 } },
    };
    const bars = it.points.flatMap((point) => {
      const ends = [point.low, point.high].map((end) => drawn(end ? end[state.view] : null, state.log));
      const x = onAxis(point.x, figure.x.unit);
      return ends.includes(null) ? [] : [[x, ends[0]], [x, ends[1]], [x, null]];
    });
    if (!bars.length) return [main];
    return [main, {
      name: it.name, type: "line", data: bars, silent: true, symbol: "rect", symbolSize: [8, 1.5],
      showSymbol: true, itemStyle: { color: colour }, lineStyle: { color: colour, width: 1.2 }, z: 2,
      connectNulls: false, tooltip: { show: false }, emphasis: { disabled: true },
    }];
  }

  function markLine(marks, look) {
    return {
      silent: true, symbol: "none", animation: false,
      lineStyle: { color: look.dim, type: [4, 4], width: 1 },
      label: { color: look.dim, formatter: (mark) => mark.name, position: "end", fontSize: 11 },
      data: marks.map((mark) => ({ name: mark.label, xAxis: mark.x })),
    };
  }

  function tooltip(figure, state, look) {
    const view = figure.views[state.view];
    return {
      trigger: "item", confine: true, backgroundColor: look.card, borderColor: look.grid,
      textStyle: { color: look.ink, fontSize: 12.5, fontFamily: FONT },
      formatter: (hit) => {
        const { point, of } = hit.data;
        if (!point) return "";
        const lines = [`<b>${escape(of.name)}</b>`];
        lines.push(`${escape(figure.x.short)}: ${escape(written(point.x, figure.x.unit))}`);
        const value = point.y[state.view];
        let text = `${escape(of.statistic || view.short)}: ${escape(written(value, view.unit))}`;
        if (of.statistic && view.unit === "number") text += ` ${escape(view.short)}`;
        const ends = [point.low, point.high].map((end) => end ? end[state.view] : null);
        if (ends[0] !== null && ends[1] !== null && ends[0] !== undefined && ends[1] !== undefined) {
          text += ` [${ends.map((end) => escape(written(end, view.unit))).join(", ")}]`;
        }
        lines.push(text);
        if (point.note) lines.push(escape(point.note));
        return lines.join("<br>");
      },
    };
  }

  function bars(figure, state, look, width) {
    const view = figure.views[state.view], variant = figure.variants[state.variant];
    const names = variant.series.map((it) => it.name);
    return Object.assign(base(figure, state, look), {
      grid: { left: 8, right: 24, bottom: 34, top: 12 + 22 * legendRows(names, width), containLabel: true },
      xAxis: axis(view, false, look, { nameGap: 28, max: view.unit === "share" ? 1 : null }),
      yAxis: {
        type: "category", inverse: true, data: variant.categories, axisTick: { show: false },
        axisLine: { lineStyle: { color: look.dim } },
        axisLabel: { color: look.ink, interval: 0, width: narrow() ? 120 : 230, overflow: "truncate", fontSize: narrow() ? 10.5 : 12 },
      },
      tooltip: {
        trigger: "item", confine: true, backgroundColor: look.card, borderColor: look.grid,
        textStyle: { color: look.ink, fontSize: 12.5, fontFamily: FONT },
        formatter: (hit) => `<b>${escape(variant.categories[hit.dataIndex])}</b><br>`
          + figure.views.map((it, place) => `${escape(hit.seriesName)}, ${escape(it.short)}: `
            + escape(written(hit.data.point.y[place], it.unit))).join("<br>"),
      },
      series: variant.series.map((it) => ({
        name: it.name, type: "bar", stack: "all", barCategoryGap: "28%",
        itemStyle: { color: look.series[it.colour % look.series.length] },
        data: it.points.map((point) => ({ value: point.y[state.view], point })),
        emphasis: { focus: "series" },
      })),
    });
  }

  const option = (figure, state, width) =>
    (figure.kind === "bars" ? bars : curves)(figure, state, colours(isDark()), width);

  // Height: bar figures grow with what they list.
  function height(figure, state) {
    if (figure.kind !== "bars") return narrow() ? 380 : 440;
    return 110 + 26 * Math.max(3, figure.variants[state.variant].categories.length);
  }

  function points(figure) {
    return Math.max(...figure.variants.map((variant) =>
      variant.series.reduce((sum, it) => sum + it.points.length, 0)), 0);
  }

  function mount(figure) {
    const host = document.getElementById(figure.id);
    const plot = host.querySelector(".plot"), tools = host.querySelector(".tools");
    const state = initial(figure);
    const chart = echarts.init(plot, null, { renderer: points(figure) > MANY ? "canvas" : "svg" });
    const entry = { figure, state, chart, plot, draw };
    function draw() {
      plot.style.height = height(figure, state) + "px";
      chart.resize();
      chart.setOption(option(figure, state, plot.clientWidth), { notMerge: true });
      // Dragging selects what to zoom into; on a touch screen it must scroll the page instead.
      if (matchMedia("(pointer: fine)").matches) {
        chart.dispatchAction({ type: "takeGlobalCursor", key: "dataZoomSelect", dataZoomSelectActive: true });
      }
    }
    controls(tools, entry);
    chart.getZr().on("dblclick", draw);
    charts.push(entry);
    draw();
  }

  function choice(label, values, chosen, pick) {
    const group = element("span", { className: "group" });
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", label);
    const buttons = values.map((value, place) => {
      const button = element("button", { type: "button", textContent: value });
      button.onclick = () => { pick(place); show(); };
      return button;
    });
    const show = () => buttons.forEach((button, place) =>
      button.setAttribute("aria-pressed", String(chosen(place))));
    group.append(...buttons);
    group.show = show;
    show();
    return group;
  }

  function controls(tools, { figure, state, draw, chart }) {
    let refresh = () => {};
    if (figure.variants.length > 1) {
      const select = element("select", { ariaLabel: "What to show" });
      figure.variants.forEach((variant, place) =>
        select.append(element("option", { value: place, textContent: variant.label })));
      select.onchange = () => { state.variant = Number(select.value); draw(); };
      tools.append(select);
    }
    if (figure.views.length > 1) {
      tools.append(choice("Unit", figure.views.map((view) => view.short),
        (place) => place === state.view,
        (place) => { state.view = place; state.log = figure.views[place].log; draw(); refresh(); }));
    }
    if (figure.statistics.length > 1) {
      const names = figure.statistics.map(([name]) => name);
      tools.append(choice("Statistics", names, (place) => state.on.has(names[place]), (place) => {
        if (!state.on.delete(names[place])) state.on.add(names[place]);
        draw();
      }));
    }
    if (figure.kind === "curves") {
      const axes = choice("Vertical axis", ["log", "linear"], (place) => state.log === (place === 0),
        (place) => { state.log = place === 0; draw(); });
      refresh = axes.show;
      tools.append(axes);
    }
    const right = element("span", { className: "right" });
    const reset = element("button", { type: "button", textContent: "Reset zoom", className: "reset" });
    reset.onclick = draw;
    const save = element("button", { type: "button", textContent: "SVG", className: "save", title: "Save this figure as a vector file" });
    save.onclick = () => download(figure.id + ".svg", svgOf(figure, state, chart));
    right.append(reset, " ", save);
    tools.append(right);
  }

  // The figure as it is shown, drawn once more as a vector of a size for print.
  function svgOf(figure, state, chart) {
    const [width, tall] = [860, Math.max(480, height(figure, state))];
    const copy = echarts.init(null, null, { renderer: "svg", ssr: true, width, height: tall });
    const now = chart.getOption();
    const chosen = option(figure, state, width);
    chosen.backgroundColor = css("--card");
    chosen.legend.selected = now.legend[0].selected;
    delete chosen.toolbox;
    if (figure.kind === "curves") {
      // A zoomed part stays zoomed.
      for (const zoom of now.dataZoom || []) {
        if (zoom.startValue === undefined) continue;
        const target = zoom.yAxisIndex !== undefined && String(zoom.yAxisIndex) !== "false" && zoom.orient === "vertical" ? chosen.yAxis : chosen.xAxis;
        if (zoom.start > 0 || zoom.end < 100) Object.assign(target, { min: zoom.startValue, max: zoom.endValue });
      }
    }
    copy.setOption(chosen);
    const svg = copy.renderToSVGString();
    copy.dispose();
    return svg;
  }

  function download(name, text) {
    const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    const link = element("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  document.querySelectorAll(".drawing .save").forEach((button) => {
    button.onclick = () => {
      const figure = button.closest("figure"), svg = figure.querySelector("svg");
      download(figure.id.replace("drawing-", "") + ".svg", new XMLSerializer().serializeToString(svg));
    };
  });

  const redraw = () => charts.forEach((entry) => entry.draw());
  document.getElementById("theme").onclick = () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    redraw();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let pending = 0;
  window.addEventListener("resize", () => { clearTimeout(pending); pending = setTimeout(redraw, 120); });

  // Paper is light, as wide as a page, and cannot be clicked: every table is open on it.
  let before = null;
  window.addEventListener("beforeprint", () => {
    before = { theme: root.dataset.theme, open: [...document.querySelectorAll("details.table")].map((it) => [it, it.open]) };
    root.dataset.theme = "light";
    before.open.forEach(([it]) => { it.open = true; });
    charts.forEach((entry) => { entry.plot.style.width = "700px"; });
    redraw();
  });
  window.addEventListener("afterprint", () => {
    if (!before) return;
    if (before.theme) root.dataset.theme = before.theme; else delete root.dataset.theme;
    before.open.forEach(([it, open]) => { it.open = open; });
    charts.forEach((entry) => { entry.plot.style.width = ""; });
    before = null;
    redraw();
  });

  figures.forEach(mount);
  window.corehop = { charts, svgOf };
})();
