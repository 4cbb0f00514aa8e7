"use strict";
// What all pages share: helpers, tooltips, colours, the table, the dots of plots. Data comes from the JSON island; every
// text goes in as text.
const jarvis = (() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";

  const make = (tag, props, ...children) => {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(props || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (key === "text") element.textContent = value;
      else element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  };
  const draw = (tag, props) => {
    const element = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(props)) element.setAttribute(key, value);
    return element;
  };
  const short = (what, most) => (what.length > most ? `${what.slice(0, most - 1)}…` : what);
  const fixed = (value, decimals) => (value === null || value === undefined ? "–" : value.toFixed(decimals));
  const ms = (value) => fixed(value, Math.abs(value) < 0.1 ? 3 : 2);
  const count = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",");
  const significant = (value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(3))));
  const say = (what) => { byId("live").textContent = what; };

  // Tooltips: lines of text beside the pointer, or beside what has the focus.
  const tip = byId("tip");
  let tipOfDot = () => null;
  const showTip = (lines, x, y) => {
    tip.replaceChildren(...lines.filter(Boolean).map((line) => make("div", { text: line })));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = x + 14 + box.width > innerWidth - 8 ? x - box.width - 14 : x + 14;
    const top = y + 16 + box.height > innerHeight - 8 ? y - box.height - 12 : y + 16;
    tip.style.left = `${Math.max(8, Math.min(left, innerWidth - box.width - 8))}px`;
    tip.style.top = `${Math.max(8, top)}px`;
  };
  const hideTip = () => { tip.hidden = true; };
  const tipOf = (element) => {
    if (element.dataset.tip) return element.dataset.tip.split("\n");
    if (element.dataset.op) return tipOfDot(Number(element.dataset.op));
    return element.tipLines || null;
  };
  const tipTarget = (event) => event.target.closest && event.target.closest("[data-tip], [data-op], .tipped");
  document.addEventListener("pointermove", (event) => {
    const target = tipTarget(event);
    const lines = target && tipOf(target);
    if (lines) showTip(lines, event.clientX, event.clientY);
    else if (!event.target.closest || !event.target.closest(".canvas")) hideTip();
  });
  document.addEventListener("focusin", (event) => {
    const target = tipTarget(event);
    const lines = target && event.target.matches(":focus-visible") && tipOf(target);
    if (!lines) return;
    const box = target.getBoundingClientRect();
    showTip(lines, box.left + Math.min(box.width / 2, 200), box.bottom - 8);
  });
  document.addEventListener("focusout", hideTip);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
  addEventListener("scroll", hideTip, { passive: true });

  // Light, dark, or as the system has it.
  const theme = byId("theme");
  const themes = [["", "Auto", "as the system"], ["light", "Light", "light"], ["dark", "Dark", "dark"]];
  let themeAt = 0;
  theme.addEventListener("click", () => {
    // The first click always changes something.
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    themeAt = themeAt === 0 ? (dark ? 1 : 2) : (themeAt === (dark ? 1 : 2) ? (dark ? 2 : 1) : 0);
    const [key, name, words] = themes[themeAt];
    if (key) document.documentElement.dataset.theme = key;
    else delete document.documentElement.dataset.theme;
    theme.textContent = name;
    theme.setAttribute("aria-label", `Colours: ${words}`);
  });

  // A cell that a spreadsheet would take for a formula gets a ' before it.
  const csvCell = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(value);
    const guarded = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(guarded) ? `"${guarded.replaceAll('"', '""')}"` : guarded;
  };
  const copy = async (what) => {
    // Pages from disk may lack the clipboard interface; the old way works on a click.
    try { await navigator.clipboard.writeText(what); return true; } catch (_) { /* the old way */ }
    const area = make("textarea", { class: "hidden" });
    area.value = what;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  };

  // The table: sorted by its heads, searched, filtered by a dot, copied. A column has `key`, `name`, `width`, `value`; `num`
  // and `show` for numbers; `fill` for cells that are more than a text. `extra` are columns of the CSV alone.
  const dataTable = ({ rows, columns, extra, nameOf, haystack, sort, total }) => {
    const CHUNK = 50;
    const state = { sort, down: true, query: "", only: null, shown: CHUNK };
    const haystacks = rows.map((row) => haystack(row).toLowerCase());
    const visible = () => {
      const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
      const column = columns.find((c) => c.key === state.sort);
      const all = rows.map((_, i) => i).filter((i) =>
        (state.only === null || nameOf(rows[i]) === nameOf(rows[state.only])) && words.every((w) => haystacks[i].includes(w)));
      const sign = state.down ? -1 : 1;
      return all.sort((a, b) => {
        // The chosen row stands before the others of its name.
        if (a === state.only || b === state.only) return a === state.only ? -1 : 1;
        const [x, y] = [column.value(rows[a]), column.value(rows[b])];
        const [noX, noY] = [x === null || x === "", y === null || y === ""];
        if (noX || noY) return noX - noY || a - b;
        return sign * (typeof x === "string" ? (x < y ? -1 : x > y ? 1 : 0) : x - y) || a - b;
      });
    };
    const clip = (value) => make("div", { class: "clip", title: value.length > 40 ? value : null, dir: "auto", text: value });
    const cell = (column, row) => {
      const value = column.value(row);
      const td = make("td", { class: column.num ? "num" : null });
      if (column.fill) column.fill(td, value, row, clip);
      else if (column.num) td.append(value === null ? "–" : column.show(value));
      else td.append(clip(value));
      return td;
    };
    const render = () => {
      const list = visible();
      byId("ops").tBodies[0].replaceChildren(...list.slice(0, state.shown).map((i) => {
        const tr = make("tr", { "data-row": i, class: i === state.only ? "chosen" : null });
        tr.append(...columns.map((c) => cell(c, rows[i])));
        return tr;
      }));
      for (const th of byId("ops").tHead.rows[0].cells) {
        th.setAttribute("aria-sort", th.dataset.key === state.sort ? (state.down ? "descending" : "ascending") : "none");
      }
      byId("table-status").textContent = `${count(list.length)} of ${count(rows.length)} rows, ${total(list.map((i) => rows[i]))}`;
      const more = byId("more-rows");
      more.hidden = list.length <= state.shown;
      more.textContent = `Show all ${count(list.length)} rows`;
      const chip = byId("filter-chip");
      chip.hidden = state.only === null;
      chip.textContent = state.only === null ? "" : `${nameOf(rows[state.only])} ✕`;
      chip.setAttribute("aria-label", "Remove the filter");
      for (const dot of document.querySelectorAll(".dot[data-op]")) {
        dot.classList.toggle("chosen", Number(dot.dataset.op) === state.only);
      }
    };
    const heads = make("tr");
    for (const column of columns) {
      const button = make("button", { type: "button", text: column.name });
      button.addEventListener("click", () => {
        if (state.sort === column.key) state.down = !state.down;
        else Object.assign(state, { sort: column.key, down: Boolean(column.num) && !column.rank });
        render();
      });
      const th = make("th", { scope: "col", "data-key": column.key, class: column.num ? "num" : null }, button);
      th.style.width = column.width;
      heads.append(th);
    }
    byId("ops").tHead.append(heads);
    byId("search").addEventListener("input", (event) => {
      Object.assign(state, { query: event.target.value, shown: CHUNK });
      render();
    });
    byId("more-rows").addEventListener("click", () => { state.shown = Infinity; render(); });
    const choose = (row) => {
      Object.assign(state, { only: row, shown: CHUNK });
      if (row !== null) { state.query = ""; byId("search").value = ""; }
      render();
      if (row !== null) say(`Table filtered by ${nameOf(rows[row])}`);
    };
    const show = (row) => {
      if (row < 0 || row >= rows.length) return;
      choose(row);
      byId("operations").scrollIntoView();
    };
    byId("filter-chip").addEventListener("click", () => { choose(null); byId("search").focus(); });
    for (const button of document.querySelectorAll("[data-show-uid]")) {
      button.addEventListener("click", () => show(rows.findIndex((row) => row.uid === Number(button.dataset.showUid))));
    }
    for (const button of document.querySelectorAll("[data-show-row]")) {
      button.addEventListener("click", () => show(Number(button.dataset.showRow)));
    }
    const csv = () => {
      const head = [...columns.map((c) => c.key), ...extra.map(([name]) => name)];
      const line = (row) => [...columns.map((c) => c.value(row)), ...extra.map(([, value]) => value(row))].map(csvCell).join(",");
      return [head.join(","), ...visible().map((i) => line(rows[i]))].join("\n") + "\n";
    };
    byId("copy-csv").addEventListener("click", async (event) => {
      const button = event.currentTarget;
      const done = await copy(csv());
      button.textContent = done ? "Copied" : "Not allowed here";
      setTimeout(() => { button.textContent = "Copy as CSV"; }, 1500);
    });
    render();
    return { choose, chosen: () => state.only };
  };

  // Dots of plots, one for each row of the table: arrows go from dot to dot, Enter filters the table.
  const dots = ({ table, label, lines }) => {
    tipOfDot = lines;
    for (const plot of document.querySelectorAll(".plot")) {
      const all = [...plot.querySelectorAll(".dot")];
      for (const dot of all) dot.setAttribute("aria-label", label(Number(dot.dataset.op)));
      plot.addEventListener("click", (event) => {
        const dot = event.target.closest(".dot");
        if (dot) table.choose(Number(dot.dataset.op) === table.chosen() ? null : Number(dot.dataset.op));
      });
      plot.addEventListener("keydown", (event) => {
        const at = all.indexOf(event.target);
        if (at < 0) return;
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          table.choose(Number(event.target.dataset.op));
        }
        const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
        if (to === undefined || !all[to]) return;
        event.preventDefault();
        all[at].setAttribute("tabindex", "-1");
        all[to].setAttribute("tabindex", "0");
        all[to].focus();
      });
    }
  };

  const legend = (list, entries) => list.replaceChildren(...entries.map(([cls, name]) =>
    make("li", null, make("span", { class: `key ${cls}` }), name)));
  const labelled = (family, content) => make("div", { class: "labelled" }, make("span", { class: `key f${family}` }), content);
  const ready = () => { document.documentElement.dataset.ready = "true"; };

  return { page, byId, make, draw, short, fixed, ms, count, significant, say, showTip, hideTip, dataTable, dots, legend, labelled, ready };
})();
