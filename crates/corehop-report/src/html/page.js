// SPDX-License-Identifier: MIT OR Apache-2.0
// Chooses which drawing of a figure is shown, saves drawings, switches dark and light, and opens the fold of a link. Nothing is
// drawn or computed here, and nothing is fetched.
(function () {
  "use strict";

  const root = document.documentElement;
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  function serve(figure) {
    const tools = figure.querySelector(".tools"), plots = [...figure.querySelectorAll(".plot")];
    const shown = plots.find((plot) => !plot.hidden);
    if (!shown) return;
    const { variant, view, scale } = shown.dataset;
    const chosen = { variant, view, scale };
    const off = new Set();
    const statistics = [...tools.querySelectorAll("[data-statistic]")];
    statistics.filter((button) => button.getAttribute("aria-pressed") === "false")
      .forEach((button) => off.add("statistic " + button.dataset.statistic));

    // A selection that is drawn in its first unit and scale only is shown in these.
    function drawn() {
      const fits = (plot, keys) => keys.every((key) => plot.dataset[key] === chosen[key]);
      if (plots.some((plot) => fits(plot, ["variant", "view", "scale"]))) return;
      const { view, scale } = plots.find((plot) => fits(plot, ["variant"])).dataset;
      Object.assign(chosen, { view, scale });
    }
    function show() {
      drawn();
      plots.forEach((plot) => {
        plot.hidden = Object.keys(chosen).some((key) => plot.dataset[key] !== chosen[key]);
      });
      figure.querySelectorAll(".series").forEach((series) => {
        const { statistic, name } = series.dataset;
        if (off.has("statistic " + statistic) || off.has("name " + name)) series.setAttribute("display", "none");
        else series.removeAttribute("display");
      });
      figure.querySelectorAll(".name").forEach((name) =>
        name.setAttribute("aria-pressed", String(!off.has("name " + name.dataset.name))));
      tools.querySelectorAll("button[aria-pressed]").forEach((button) => {
        const { statistic, view, scale } = button.dataset;
        const pressed = statistic !== undefined ? !off.has("statistic " + statistic)
          : view !== undefined ? view === chosen.view : scale === chosen.scale;
        button.setAttribute("aria-pressed", String(pressed));
      });
    }
    function flip(what) {
      if (!off.delete(what)) off.add(what);
      show();
    }

    tools.querySelectorAll("button[aria-pressed]").forEach((button) => {
      const { statistic, view, scale } = button.dataset;
      button.onclick = () => {
        if (statistic !== undefined) return flip("statistic " + statistic);
        Object.assign(chosen, view === undefined ? { scale } : { view, scale });
        show();
      };
    });
    const select = tools.querySelector("select");
    if (select) select.onchange = () => { chosen.variant = select.value; show(); };
    figure.querySelectorAll(".name").forEach((name) => {
      const switched = () => flip("name " + name.dataset.name);
      name.onclick = switched;
      name.onkeydown = (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); switched(); }
      };
    });
    tools.hidden = false;
  }

  // A drawing that stands alone: of a figure as it is shown, with the page's colours in place of their names.
  function alone(svg) {
    const copy = svg.cloneNode(true);
    copy.querySelectorAll("[display=none]").forEach((group) => group.remove());
    const text = new XMLSerializer().serializeToString(copy);
    if (!svg.closest(".plot")) return text;
    const card = '<rect width="100%" height="100%" fill="var(--card)"/>';
    return text.replace(/(<svg[^>]*>)/, "$1" + card).replace(/var\((--[\w-]+)\)/g, (_, name) => css(name));
  }

  function download(name, text) {
    const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    const link = Object.assign(document.createElement("a"), { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  document.querySelectorAll("figure.chart").forEach(serve);
  document.querySelectorAll("figure .save").forEach((button) => {
    button.onclick = () => {
      const figure = button.closest("figure");
      const svg = figure.querySelector(".plot:not([hidden]) .wide, .scroll svg");
      download(figure.id.replace("drawing-", "") + ".svg", alone(svg));
    };
  });
  document.getElementById("theme").onclick = () => { root.dataset.theme = isDark() ? "light" : "dark"; };

  // A link to a part opens the fold of that part.
  function unfold() {
    const part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!part) return;
    const folds = [part.querySelector("details.fold")];
    for (let around = part.closest("details"); around; around = around.parentElement.closest("details")) folds.push(around);
    folds.filter(Boolean).forEach((fold) => { fold.open = true; });
    part.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  if (location.hash) unfold();

  // Paper is light. What is open is printed, and the first screen with its figure.
  let before = null;
  window.addEventListener("beforeprint", () => {
    before = { theme: root.dataset.theme };
    root.dataset.theme = "light";
  });
  window.addEventListener("afterprint", () => {
    if (!before) return;
    if (before.theme) root.dataset.theme = before.theme; else delete root.dataset.theme;
    before = null;
  });
})();
