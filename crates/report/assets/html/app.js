"use strict";
// What a reader can do with the page. Data comes from the JSON island; every text goes in as text.
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const side = page.sides[0];
  const texts = side.texts;
  const ops = side.operations.rows;
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
  const text = (id) => (id === null || id === undefined ? "" : texts[id]);
  const fixed = (value, decimals) => (value === null || value === undefined ? "–" : value.toFixed(decimals));
  const ms = (value) => fixed(value, Math.abs(value) < 0.1 ? 3 : 2);
  const count = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",");
  const significant = (value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(3))));
  const say = (what) => { byId("live").textContent = what; };

  // Tooltips: lines of text beside the pointer, or beside what has the focus.
  const tip = byId("tip");
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
    if (element.dataset.op) return operationTip(ops[Number(element.dataset.op)]);
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

  const operationTip = (o) => [
    text(o.name), text(o.args),
    `${ms(o.ms)} ms in ${count(o.count)} call${o.count === 1 ? "" : "s"}, ${fixed(o.percent, 1)} % of the window`,
    o.efficiency === null ? "efficiency unknown"
      : `${fixed(o.efficiency, 1)} % of the roof${o.bound ? `, bound by ${o.bound}` : ""}${o.anomaly ? " (cannot be: peak, model or timing is off)" : ""}`,
    o.tflops === null ? "" : `${significant(o.tflops)} TFLOPS, ${significant(o.tbs)} TB/s${o.spec === null ? "" : `, ${text(o.spec)}`}`,
    o.kernel === null ? "" : `kernel: ${short(text(o.kernel), 110)}${o.kernels > 1 ? ` and ${o.kernels - 1} more` : ""}`,
  ];

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

  // The table of operations.
  const columns = [
    { key: "name", name: "Operation", width: "19%", value: (o) => text(o.name) },
    { key: "args", name: "Shapes and types", width: "20%", value: (o) => text(o.args) },
    { key: "category", name: "Category", width: "13%", value: (o) => text(o.category), family: true },
    { key: "count", name: "Calls", num: true, width: "7%", value: (o) => o.count, show: count },
    { key: "ms", name: "ms", num: true, width: "8%", value: (o) => o.ms, show: (v) => fixed(v, 3) },
    { key: "percent", name: "% of window", num: true, width: "11%", value: (o) => o.percent, show: (v) => fixed(v, 2) },
    { key: "efficiency", name: "% of roof", num: true, width: "12%", value: (o) => o.efficiency, show: (v) => fixed(v, 2), meter: true },
    { key: "bound", name: "Bound by", width: "8%", value: (o) => o.bound || "" },
    { key: "finding", name: "Finding", num: true, width: "7%", value: (o) => o.finding, judged: true },
  ].filter((c) => !c.judged || ops.some((o) => o.finding !== null));
  const extra = [
    ["kernel", (o) => text(o.kernel)], ["module", (o) => text(o.module)], ["uid", (o) => o.uid], ["tflops", (o) => o.tflops],
    ["tb_s", (o) => o.tbs], ["flops_per_byte", (o) => o.intensity], ["compute_spec", (o) => text(o.spec)],
  ];
  const haystacks = ops.map((o) => [o.name, o.args, o.category, o.kernel, o.module].map(text).join(" ").toLowerCase());
  const CHUNK = 50;
  const table = { sort: "ms", down: true, query: "", only: null, shown: CHUNK };

  const visible = () => {
    const words = table.query.toLowerCase().split(/\s+/).filter(Boolean);
    const column = columns.find((c) => c.key === table.sort);
    const all = ops.map((_, i) => i).filter((i) =>
      (table.only === null || ops[i].name === ops[table.only].name) && words.every((w) => haystacks[i].includes(w)));
    const sign = table.down ? -1 : 1;
    return all.sort((a, b) => {
      // The chosen row stands before the others of its name.
      if (a === table.only || b === table.only) return a === table.only ? -1 : 1;
      const [x, y] = [column.value(ops[a]), column.value(ops[b])];
      const [noX, noY] = [x === null || x === "", y === null || y === ""];
      if (noX || noY) return noX - noY || a - b;
      return sign * (typeof x === "string" ? (x < y ? -1 : x > y ? 1 : 0) : x - y) || a - b;
    });
  };
  const cell = (column, o) => {
    const value = column.value(o);
    const td = make("td", { class: column.num ? "num" : null });
    if (column.key === "finding") {
      if (value !== null) td.append(make("a", { href: `#finding-${value}`, text: `#${value}`, "aria-label": `Finding ${value}` }));
    } else if (column.num) {
      td.append(value === null ? "–" : column.show(value));
      if (column.meter && value !== null) {
        const bar = make("i");
        bar.style.width = `${Math.max(0, Math.min(100, value))}%`;
        td.append(make("span", { class: "meter", "aria-hidden": "true" }, bar));
      }
    } else {
      const clip = make("div", { class: "clip", title: value.length > 40 ? value : null, dir: "auto", text: value });
      td.append(column.family ? make("div", { class: "labelled" }, make("span", { class: `key f${o.family}` }), clip) : clip);
    }
    return td;
  };
  const renderTable = () => {
    const list = visible();
    const rows = list.slice(0, table.shown).map((i) => {
      const tr = make("tr", { "data-row": i, class: i === table.only ? "chosen" : null });
      tr.append(...columns.map((c) => cell(c, ops[i])));
      return tr;
    });
    byId("ops").tBodies[0].replaceChildren(...rows);
    for (const th of byId("ops").tHead.rows[0].cells) {
      th.setAttribute("aria-sort", th.dataset.key === table.sort ? (table.down ? "descending" : "ascending") : "none");
    }
    const time = list.reduce((sum, i) => sum + ops[i].ms, 0);
    byId("table-status").textContent = `${count(list.length)} of ${count(ops.length)} rows, ${ms(time)} ms`;
    const more = byId("more-rows");
    more.hidden = list.length <= table.shown;
    more.textContent = `Show all ${count(list.length)} rows`;
    const chip = byId("filter-chip");
    chip.hidden = table.only === null;
    chip.textContent = table.only === null ? "" : `${text(ops[table.only].name)} ✕`;
    chip.setAttribute("aria-label", "Remove the filter");
    for (const dot of document.querySelectorAll(".dot[data-op]")) {
      dot.classList.toggle("chosen", Number(dot.dataset.op) === table.only);
    }
  };
  const heads = make("tr");
  for (const column of columns) {
    const button = make("button", { type: "button", text: column.name });
    button.addEventListener("click", () => {
      if (table.sort === column.key) table.down = !table.down;
      else Object.assign(table, { sort: column.key, down: Boolean(column.num) && column.key !== "finding" });
      renderTable();
    });
    const th = make("th", { scope: "col", "data-key": column.key, class: column.num ? "num" : null }, button);
    th.style.width = column.width;
    heads.append(th);
  }
  byId("ops").tHead.append(heads);
  byId("search").addEventListener("input", (event) => {
    Object.assign(table, { query: event.target.value, shown: CHUNK });
    renderTable();
  });
  byId("more-rows").addEventListener("click", () => { table.shown = Infinity; renderTable(); });
  const choose = (row) => {
    Object.assign(table, { only: row, shown: CHUNK });
    if (row !== null) { table.query = ""; byId("search").value = ""; }
    renderTable();
    if (row !== null) say(`Table filtered by ${text(ops[row].name)}`);
  };
  byId("filter-chip").addEventListener("click", () => { choose(null); byId("search").focus(); });
  for (const button of document.querySelectorAll("[data-show-uid]")) {
    button.addEventListener("click", () => {
      const row = ops.findIndex((o) => o.uid === Number(button.dataset.showUid));
      if (row < 0) return;
      choose(row);
      byId("operations").scrollIntoView();
    });
  }
  // A cell that a spreadsheet would take for a formula gets a ' before it.
  const csvCell = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(value);
    const guarded = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(guarded) ? `"${guarded.replaceAll('"', '""')}"` : guarded;
  };
  const csv = () => {
    const head = [...columns.map((c) => c.key), ...extra.map(([name]) => name)];
    const line = (o) => [...columns.map((c) => c.value(o)), ...extra.map(([, value]) => value(o))].map(csvCell).join(",");
    return [head.join(","), ...visible().map((i) => line(ops[i]))].join("\n") + "\n";
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
  byId("copy-csv").addEventListener("click", async (event) => {
    const button = event.currentTarget;
    const done = await copy(csv());
    button.textContent = done ? "Copied" : "Not allowed here";
    setTimeout(() => { button.textContent = "Copy as CSV"; }, 1500);
  });
  renderTable();

  // Dots of the roofline: arrows go from dot to dot, Enter filters the table.
  for (const plot of document.querySelectorAll(".plot")) {
    const dots = [...plot.querySelectorAll(".dot")];
    for (const dot of dots) {
      const o = ops[Number(dot.dataset.op)];
      dot.setAttribute("aria-label", `${text(o.name)} ${text(o.args)}: ${ms(o.ms)} ms, ${fixed(o.efficiency, 1)} % of the roof`);
    }
    plot.addEventListener("click", (event) => {
      const dot = event.target.closest(".dot");
      if (dot) choose(Number(dot.dataset.op) === table.only ? null : Number(dot.dataset.op));
    });
    plot.addEventListener("keydown", (event) => {
      const at = dots.indexOf(event.target);
      if (at < 0) return;
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        choose(Number(event.target.dataset.op));
      }
      const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: dots.length - 1 }[event.key];
      if (to === undefined || !dots[to]) return;
      event.preventDefault();
      dots[at].setAttribute("tabindex", "-1");
      dots[to].setAttribute("tabindex", "0");
      dots[to].focus();
    });
  }

  const legend = (list, entries) => list.replaceChildren(...entries.map(([cls, name]) =>
    make("li", null, make("span", { class: `key ${cls}` }), name)));

  // Where time goes.
  const icicle = byId("icicle");
  if (icicle && side.icicle) {
    const ROW = 27;
    const depth = (node) => 1 + Math.max(0, ...(node.children || []).map(depth));
    const link = (node, parent) => { node.parent = parent; (node.children || []).forEach((c) => link(c, node)); };
    link(side.icicle, null);
    const total = side.icicle.ms;
    const used = new Set();
    const collect = (node) => { if (node.kind !== "root") used.add(node.family); (node.children || []).forEach(collect); };
    collect(side.icicle);
    legend(byId("icicle-legend"), [...used].sort((a, b) => a - b).map((f) => [`f${f}`, page.families[f]]));
    // Room for the deepest branch from the start: zooming moves nothing else.
    icicle.style.height = `${Math.min(16, depth(side.icicle)) * ROW}px`;
    let elements = new Map();
    const nodeTip = (node) => [
      text(node.name), { module: "module", op: "operation", kernel: "kernel", others: "small parts", root: "all kernels" }[node.kind],
      `${ms(node.ms)} ms, ${fixed(100 * node.ms / total, 1)} % of kernel time`, node.count ? `${count(node.count)} calls` : "",
    ];
    const zoom = (root, focus) => {
      elements = new Map();
      const made = [];
      const place = (node, left, width, row) => {
        if (width < 0.25 || row > 15) return;
        const button = make("button", { type: "button", class: `tipped t${node.family}${width < 2.5 ? " thin" : ""}`, tabindex: node === (focus || root) ? "0" : "-1" });
        button.textContent = width < 2.5 ? "" : text(node.name);
        button.setAttribute("aria-label", `${text(node.name)}: ${ms(node.ms)} ms`);
        Object.assign(button.style, { left: `${left}%`, width: `${width}%`, top: `${row * ROW}px` });
        button.tipLines = nodeTip(node);
        button.node = node;
        elements.set(node, button);
        made.push(button);
        let at = left;
        for (const child of node.children || []) {
          const share = node.ms > 0 ? width * child.ms / node.ms : 0;
          place(child, at, share, row + 1);
          at += share;
        }
      };
      place(root, 0, 100, 0);
      icicle.replaceChildren(...made);
      const chain = [];
      for (let node = root; node; node = node.parent) chain.unshift(node);
      byId("crumbs").replaceChildren(...chain.map((node) => {
        const button = make("button", { type: "button", text: text(node.name), disabled: node === root });
        button.addEventListener("click", () => zoom(node));
        return button;
      }));
      hideTip();
      if (focus && elements.get(focus)) elements.get(focus).focus();
    };
    let current = side.icicle;
    icicle.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      const target = button.node === current && current.parent ? current.parent : button.node;
      if (!target.children) return;
      current = target;
      zoom(current, event.detail === 0 ? current : null);
    });
    icicle.addEventListener("keydown", (event) => {
      const node = event.target.node;
      if (!node) return;
      const shown = (n) => (n && elements.has(n) ? n : null);
      const siblings = node.parent ? node.parent.children : [node];
      const to = {
        ArrowDown: () => (node.children || []).find(shown), ArrowUp: () => node.parent,
        ArrowRight: () => siblings[siblings.indexOf(node) + 1], ArrowLeft: () => siblings[siblings.indexOf(node) - 1],
      }[event.key];
      if (!to) return;
      event.preventDefault();
      const next = shown(to());
      if (!next) return;
      event.target.setAttribute("tabindex", "-1");
      elements.get(next).setAttribute("tabindex", "0");
      elements.get(next).focus();
    });
    zoom(side.icicle);
  }

  // One step, stream by stream.
  const strip = side.strip;
  const holder = byId("strip");
  if (holder && strip) {
    const LANE = 34, BAR = 22, PAD = 6, WIDTH = 100000;
    const windowNs = strip.window_us * 1000;
    const lanes = [{ name: "GPU idle", items: strip.gaps, gap: true },
      ...strip.streams.map((s) => ({ name: text(s.name), items: s.segments, gap: false }))];
    const labels = make("div", { class: "lanes", "aria-hidden": "true" }, ...lanes.map((l) => make("div", { text: l.name, title: l.name })));
    const height = lanes.length * LANE;
    const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", height, "aria-hidden": "true" });
    const usedFamilies = new Set();
    lanes.forEach((lane, row) => {
      svg.append(draw("rect", { x: 0, y: row * LANE + PAD, width: WIDTH, height: BAR, class: "lane" }));
      const paths = new Map();
      for (const [start, length, kind] of lane.items) {
        const cls = lane.gap ? `g-${page.gap_classes[kind][0]}` : `f${kind}`;
        if (!lane.gap) usedFamilies.add(kind);
        const x = Math.round(WIDTH * start / windowNs), w = Math.max(1, Math.round(WIDTH * length / windowNs));
        if (!paths.has(cls)) paths.set(cls, []);
        paths.get(cls).push(`M${x} ${row * LANE + PAD}h${w}v${BAR}h-${w}z`);
      }
      for (const [cls, list] of paths) svg.append(draw("path", { d: list.join(""), class: cls }));
    });
    const cursor = make("div", { class: "cursor", hidden: true });
    const times = make("div", { class: "times", "aria-hidden": "true" });
    const canvas = make("div", { class: "canvas", tabindex: "0", role: "application",
      "aria-label": "One step: arrow keys left and right go from part to part, up and down change the stream" }, svg, times, cursor);
    const view = make("div", { class: "view" }, canvas);
    holder.append(labels, view);
    // The longest waits are named where there is room.
    const gapNames = [];
    for (const item of [...strip.gaps].sort((a, b) => b[1] - a[1]).slice(0, 10)) {
      const label = make("span", { class: "gaplabel", text: `${page.gap_classes[item[2]][1]} ${ms(item[1] / 1e6)} ms` });
      Object.assign(label.style, { left: `${100 * item[0] / windowNs}%`, width: `${100 * item[1] / windowNs}%`, top: `${PAD}px` });
      gapNames.push([label, item[1] / windowNs]);
      canvas.append(label);
    }
    let scale = 1;
    const rescale = (next) => {
      const middle = (view.scrollLeft + view.clientWidth / 2) / canvas.clientWidth;
      scale = Math.max(1, Math.min(32, next));
      canvas.style.width = `${100 * scale}%`;
      view.scrollLeft = middle * canvas.clientWidth - view.clientWidth / 2;
      const ticks = Math.max(2, Math.round(canvas.clientWidth / 160));
      times.replaceChildren(...Array.from({ length: ticks + 1 }, (_, i) => {
        const tick = make("span", { text: `${significant(strip.window_us / 1e3 * i / ticks)} ms` });
        tick.style.left = `${100 * i / ticks}%`;
        return tick;
      }));
      for (const [label, share] of gapNames) label.hidden = share * canvas.clientWidth < 60;
      byId("zoom-out").disabled = scale === 1;
      byId("zoom-in").disabled = scale === 32;
    };
    byId("zoom-in").addEventListener("click", () => rescale(scale * 2));
    byId("zoom-out").addEventListener("click", () => rescale(scale / 2));
    byId("zoom-fit").addEventListener("click", () => rescale(1));
    addEventListener("resize", () => rescale(scale));
    rescale(1);

    const describe = (lane, [start, length, kind, n, name]) => (lane.gap ? [
      page.gap_classes[kind][1], `${ms(length / 1e6)} ms at ${ms(start / 1e6)} ms${n > 1 ? ` (${n} gaps)` : ""}`,
      page.gap_classes[kind][2], name === null ? "" : `host: ${text(name)}`,
    ] : [
      n > 1 ? `${count(n)} kernels, most of it ${page.families[kind].toLowerCase()}` : text(name), n > 1 ? `longest: ${text(name)}` : "",
      `${fixed(length / 1e3, 1)} µs at ${ms(start / 1e6)} ms`, page.families[kind], lane.name,
    ]);
    // The part at a time, or the one nearest to it if that is no more than a few pixels away.
    const find = (lane, at, slack) => {
      let [low, high] = [0, lane.items.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (lane.items[middle][0] <= at) low = middle + 1; else high = middle;
      }
      const away = (i) => { const s = lane.items[i]; return s ? Math.max(0, s[0] - at, at - s[0] - s[1]) : Infinity; };
      const best = [low - 2, low - 1, low].filter((i) => i >= 0).reduce((a, b) => (away(b) <= away(a) ? b : a), -1);
      return away(best) <= slack ? best : -1;
    };
    const mark = (row, index) => {
      const item = lanes[row].items[index];
      Object.assign(cursor.style, { left: `${100 * item[0] / windowNs}%`, width: `${100 * item[1] / windowNs}%`, top: `${row * LANE + PAD}px`, height: `${BAR}px` });
      cursor.hidden = false;
    };
    canvas.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const row = Math.floor((event.clientY - box.top) / LANE);
      if (!lanes[row]) { hideTip(); return; }
      const at = windowNs * (event.clientX - box.left) / box.width;
      const index = find(lanes[row], at, 3 * windowNs / box.width);
      if (index < 0) { cursor.hidden = true; hideTip(); return; }
      mark(row, index);
      showTip(describe(lanes[row], lanes[row].items[index]), event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerleave", () => { cursor.hidden = true; hideTip(); });
    const at = { row: Math.min(1, lanes.length - 1), index: -1 };
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      const row = Math.max(0, Math.min(lanes.length - 1, at.row + move[0]));
      const time = at.index >= 0 ? lanes[at.row].items[at.index][0] : 0;
      const wanted = row === at.row ? at.index + move[1] : find(lanes[row], time, Infinity);
      if (!lanes[row].items.length) return;
      Object.assign(at, { row, index: Math.max(0, Math.min(lanes[row].items.length - 1, wanted)) });
      mark(at.row, at.index);
      const box = cursor.getBoundingClientRect(), frame = view.getBoundingClientRect();
      if (box.left < frame.left || box.right > frame.right) view.scrollLeft += box.left - frame.left - frame.width / 2;
      const lines = describe(lanes[at.row], lanes[at.row].items[at.index]);
      const place = cursor.getBoundingClientRect();
      showTip(lines, place.left, place.bottom);
      say(lines.filter(Boolean).join(", "));
    });
    legend(byId("strip-legend"), [...usedFamilies].sort((a, b) => a - b).map((f) => [`f${f}`, page.families[f]]));
  }

  // The trace in the Perfetto UI, handed over from page to page as its documentation says: PING until PONG, then the file.
  const chooser = byId("trace-file");
  if (chooser) {
    const VIEWER = "https://ui.perfetto.dev";
    const status = (what) => { byId("perfetto-status").textContent = what; };
    chooser.addEventListener("change", () => { byId("open-perfetto").disabled = !chooser.files.length; status(""); });
    byId("open-perfetto").addEventListener("click", async () => {
      const file = chooser.files[0];
      if (!file) return;
      const viewer = open(VIEWER);
      if (!viewer) { status("The browser blocked the new tab."); return; }
      status("Waiting for the viewer …");
      const buffer = await file.arrayBuffer();
      let pings = 0;
      const timer = setInterval(() => {
        pings += 1;
        if (pings > 600) { clearInterval(timer); removeEventListener("message", answer); status("The viewer did not answer."); return; }
        viewer.postMessage("PING", VIEWER);
      }, 50);
      const answer = (event) => {
        if (event.source !== viewer || event.data !== "PONG") return;
        clearInterval(timer);
        removeEventListener("message", answer);
        viewer.postMessage({ perfetto: { buffer, title: file.name, fileName: file.name, keepApiOpen: false } }, VIEWER, [buffer]);
        status("Handed over.");
      };
      addEventListener("message", answer);
    });
  }
  document.documentElement.dataset.ready = "true";
})();
