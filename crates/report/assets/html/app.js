// The page of one trace.
(() => {
  const { page, byId, make, short, fixed, ms, count, significant, hideTip, legend, labelled } = jarvis;
  const side = page.sides[0];
  const text = (id) => (id === null || id === undefined ? "" : side.texts[id]);
  const ops = side.operations.rows;

  const table = jarvis.dataTable({
    rows: ops,
    columns: [
      { key: "name", name: "Operation", width: "19%", value: (o) => text(o.name) },
      { key: "args", name: "Shapes and types", width: "20%", value: (o) => text(o.args) },
      { key: "category", name: "Category", width: "13%", value: (o) => text(o.category), fill: (td, value, o, clip) => td.append(labelled(o.family, clip(value))) },
      { key: "count", name: "Calls", num: true, width: "7%", value: (o) => o.count, show: count },
      { key: "ms", name: "ms", num: true, width: "8%", value: (o) => o.ms, show: (v) => fixed(v, 3) },
      { key: "percent", name: "% of window", num: true, width: "11%", value: (o) => o.percent, show: (v) => fixed(v, 2) },
      { key: "efficiency", name: "% of roof", num: true, width: "12%", value: (o) => o.efficiency, fill: (td, value) => {
        td.append(fixed(value, 2));
        if (value === null) return;
        const bar = make("i");
        bar.style.width = `${Math.max(0, Math.min(100, value))}%`;
        td.append(make("span", { class: "meter", "aria-hidden": "true" }, bar));
      } },
      { key: "bound", name: "Bound by", width: "8%", value: (o) => o.bound || "" },
      { key: "finding", name: "Finding", num: true, rank: true, width: "7%", value: (o) => o.finding, judged: true, fill: (td, value) => {
        if (value !== null) td.append(make("a", { href: `#finding-${value}`, text: `#${value}`, "aria-label": `Finding ${value}` }));
      } },
    ].filter((c) => !c.judged || ops.some((o) => o.finding !== null)),
    extra: [
      ["kernel", (o) => text(o.kernel)], ["module", (o) => text(o.module)], ["uid", (o) => o.uid], ["tflops", (o) => o.tflops],
      ["tb_s", (o) => o.tbs], ["flops_per_byte", (o) => o.intensity], ["compute_spec", (o) => text(o.spec)],
    ],
    nameOf: (o) => text(o.name),
    haystack: (o) => [o.name, o.args, o.category, o.kernel, o.module].map(text).join(" "),
    sort: "ms",
    total: (list) => `${ms(list.reduce((sum, o) => sum + o.ms, 0))} ms`,
  });
  jarvis.dots({
    table,
    label: (at) => { const o = ops[at]; return `${text(o.name)} ${text(o.args)}: ${ms(o.ms)} ms, ${fixed(o.efficiency, 1)} % of the roof`; },
    lines: (at) => {
      const o = ops[at];
      return [
        text(o.name), text(o.args),
        `${ms(o.ms)} ms in ${count(o.count)} call${o.count === 1 ? "" : "s"}, ${fixed(o.percent, 1)} % of the window`,
        o.efficiency === null ? "efficiency unknown"
          : `${fixed(o.efficiency, 1)} % of the roof${o.bound ? `, bound by ${o.bound}` : ""}${o.anomaly ? " (cannot be: peak, model or timing is off)" : ""}`,
        o.tflops === null ? "" : `${significant(o.tflops)} TFLOPS, ${significant(o.tbs)} TB/s${o.spec === null ? "" : `, ${text(o.spec)}`}`,
        o.kernel === null ? "" : `kernel: ${short(text(o.kernel), 110)}${o.kernels > 1 ? ` and ${o.kernels - 1} more` : ""}`,
      ];
    },
  });

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
  if (side.strip) {
    const made = jarvis.strip({ holder: byId("strip"), strip: side.strip, texts: side.texts, windowUs: side.strip.window_us });
    jarvis.zooming([made], byId("strip-legend"));
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
  jarvis.ready();
})();
