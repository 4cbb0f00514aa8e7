// The page of a comparison.
(() => {
  const { page, byId, make, short, fixed, ms, count, labelled } = jarvis;
  const text = (id) => (id === null || id === undefined ? "" : page.texts[id]);
  const ops = page.operations.rows;
  const verdicts = new Map(page.verdicts.map(([key, sign, words]) => [key, { sign, words }]));
  const times = (ratio) => (ratio === null ? "–" : `${fixed(ratio, ratio < 0.1 ? 3 : ratio < 10 ? 2 : 1)}×`);
  const expected = (o) => {
    const [low, high] = [times(o.expected_low), times(o.expected_high)];
    return low === high ? low : `${low} to ${high}`;
  };
  const number = (value) => count(fixed(value, 1).replace(/\.0$/, ""));
  const verdict = (o) => `${verdicts.get(o.verdict).sign} ${verdicts.get(o.verdict).words}`;

  const table = jarvis.dataTable({
    rows: ops,
    columns: [
      { key: "name", name: "Operation", width: "14.5%", value: (o) => text(o.name) },
      { key: "args", name: "Shapes and types", width: "16%", value: (o) => text(o.args) },
      { key: "category", name: "Category", width: "11.5%", value: (o) => text(o.category), fill: (td, value, o, clip) => td.append(labelled(o.family, clip(value))) },
      { key: "reference_ms", name: "Reference ms", num: true, width: "10.5%", value: (o) => o.reference_ms, show: (v) => fixed(v, 3) },
      { key: "target_ms", name: "Target ms", num: true, width: "8%", value: (o) => o.target_ms, show: (v) => fixed(v, 3) },
      { key: "ratio", name: "Ratio", num: true, width: "6%", value: (o) => o.ratio, show: times },
      { key: "expected", name: "Expected", num: true, width: "7.5%", value: (o) => o.expected, fill: (td, _, o) => td.append(expected(o)) },
      { key: "over_ms", name: "Over ms", num: true, width: "7%", value: (o) => o.over_ms, show: (v) => fixed(v, 3) },
      { key: "bound", name: "Bound", width: "7%", value: (o) => o.bound || "" },
      { key: "verdict", name: "Verdict", width: "12%", value: (o) => o.verdict, fill: (td, _, o) => {
        const said = make("span", { class: `verdict v-${o.verdict} tipped`, text: verdict(o) });
        said.tipLines = [o.verdict.replace("_", " "), text(o.why)];
        td.append(said);
        if (o.gap !== null) td.append(" ", make("a", { href: `#gap-${o.gap}`, text: `#${o.gap}`, "aria-label": `Place ${o.gap} to improve` }));
      } },
    ],
    extra: [
      ["match_level", (o) => o.level], ["expected_low", (o) => o.expected_low], ["expected_high", (o) => o.expected_high], ["excess", (o) => o.excess],
      ["reference_calls", (o) => o.reference_calls], ["target_calls", (o) => o.target_calls],
      ["reference_kernel", (o) => text(o.reference_kernel)], ["target_kernel", (o) => text(o.target_kernel)], ["uid", (o) => o.uid],
    ],
    nameOf: (o) => text(o.name),
    haystack: (o) => [...[o.name, o.args, o.category, o.reference_kernel, o.target_kernel].map(text), o.bound || "", o.verdict.replace("_", " "), verdicts.get(o.verdict).words].join(" "),
    sort: "target_ms",
    total: (list) => {
      const sum = (key) => ms(list.reduce((all, o) => all + o[key], 0));
      return `reference ${sum("reference_ms")} ms, target ${sum("target_ms")} ms`;
    },
  });
  jarvis.dots({
    table,
    label: (at) => { const o = ops[at]; return `${text(o.name)} ${text(o.args)}: ${times(o.ratio)}, expected ${expected(o)}, ${verdicts.get(o.verdict).words}`; },
    lines: (at) => {
      const o = ops[at];
      const calls = number(o.reference_calls) === number(o.target_calls) ? `${number(o.target_calls)} calls`
        : `${number(o.reference_calls)} calls in the reference, ${number(o.target_calls)} in the target`;
      return [
        text(o.name), text(o.args),
        `reference ${ms(o.reference_ms)} ms, target ${ms(o.target_ms)} ms, ${calls}`,
        `target over reference ${times(o.ratio)}, expected ${expected(o)}${o.bound ? `, ${o.bound}-bound` : ""}`,
        `${verdict(o)}${o.over_ms > 0 ? `, ${ms(o.over_ms)} ms over` : ""}`,
        o.reference_kernel === null ? "" : `reference kernel: ${short(text(o.reference_kernel), 90)}`,
        o.target_kernel === null ? "" : `target kernel: ${short(text(o.target_kernel), 90)}`,
      ];
    },
  });

  // Both steps on one scale.
  const [reference, target] = page.strips;
  const windowUs = Math.max(...page.strips.filter(Boolean).map((s) => s.window_us), 0);
  const strips = [["strip-reference", reference], ["strip-target", target]].filter(([, strip]) => strip)
    .map(([id, strip]) => jarvis.strip({ holder: byId(id), strip, texts: page.texts, windowUs }));
  if (strips.length) jarvis.zooming(strips, byId("strip-legend"));
  jarvis.ready();
})();
