// One step, stream by stream. Several strips of one page share a scale and its buttons.
(() => {
  const { page, byId, make, draw, fixed, ms, count, significant, say, showTip, hideTip, legend } = jarvis;

  jarvis.strip = ({ holder, strip, texts, windowUs }) => {
    const LANE = 34, BAR = 22, PAD = 6, WIDTH = 100000;
    const windowNs = windowUs * 1000;
    const text = (id) => (id === null || id === undefined ? "" : texts[id]);
    const lanes = [{ name: "GPU idle", items: strip.gaps, gap: true },
      ...strip.streams.map((s) => ({ name: text(s.name), items: s.segments, gap: false }))];
    const labels = make("div", { class: "lanes", "aria-hidden": "true" }, ...lanes.map((l) => make("div", { text: l.name, title: l.name })));
    const height = lanes.length * LANE;
    const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", height, "aria-hidden": "true" });
    const usedFamilies = new Set();
    lanes.forEach((lane, row) => {
      svg.append(draw("rect", { x: 0, y: row * LANE + PAD, width: WIDTH * strip.window_us / windowUs, height: BAR, class: "lane" }));
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
    const rescale = (scale) => {
      const middle = (view.scrollLeft + view.clientWidth / 2) / canvas.clientWidth;
      canvas.style.width = `${100 * scale}%`;
      view.scrollLeft = middle * canvas.clientWidth - view.clientWidth / 2;
      const ticks = Math.max(2, Math.round(canvas.clientWidth / 160));
      times.replaceChildren(...Array.from({ length: ticks + 1 }, (_, i) => {
        const tick = make("span", { text: `${significant(windowUs / 1e3 * i / ticks)} ms` });
        tick.style.left = `${100 * i / ticks}%`;
        return tick;
      }));
      for (const [label, share] of gapNames) label.hidden = share * canvas.clientWidth < 60;
    };

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
    return { rescale, view, families: usedFamilies };
  };

  // Buttons that zoom, and scrolling that all strips follow.
  jarvis.zooming = (strips, legendList) => {
    let scale = 1;
    const rescale = (next) => {
      scale = Math.max(1, Math.min(32, next));
      for (const strip of strips) strip.rescale(scale);
      byId("zoom-out").disabled = scale === 1;
      byId("zoom-in").disabled = scale === 32;
    };
    byId("zoom-in").addEventListener("click", () => rescale(scale * 2));
    byId("zoom-out").addEventListener("click", () => rescale(scale / 2));
    byId("zoom-fit").addEventListener("click", () => rescale(1));
    addEventListener("resize", () => rescale(scale));
    rescale(1);
    for (const { view } of strips) {
      view.addEventListener("scroll", () => {
        for (const other of strips) if (other.view.scrollLeft !== view.scrollLeft) other.view.scrollLeft = view.scrollLeft;
      }, { passive: true });
    }
    const used = new Set(strips.flatMap((strip) => [...strip.families]));
    legend(legendList, [...used].sort((a, b) => a - b).map((f) => [`f${f}`, page.families[f]]));
  };
})();
