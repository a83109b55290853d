// The list of cases: sorting, filters, links, keyboard.
(() => {
  const { data, byId, t, el, shown, caseView, count } = memeval;
  const form = document.getElementById("filters"), place = document.getElementById("list");
  const root = document.body;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  const lost = (one) => (one.funnel ?? []).filter((row) => row.lost_at).length;
  const columns = [
    ["js.case", (one) => one.id], ["js.outcome", (one) => one.outcome], ["js.score", (one) => one.score ?? null],
    ["js.memories", (one) => count(one.truth)], ["js.lost", lost], ["js.difficulty", (one) => one.difficulty],
    ["js.source", (one) => one.source], ["js.calls", (one) => count(one.calls)], ["js.seconds", (one) => one.seconds ?? 0],
  ];
  const several = new Set(data.cases.map((one) => one.set)).size > 1;
  const body = el("tbody"), heads = [];
  const rows = data.cases.map((one) => {
    const button = el("button", { type: "button", "aria-expanded": "false" }, several ? one.id : one.id.slice(one.set.length + 2) || one.id);
    const outcome = count(one.missed) ? `${t(`js.${one.outcome}`)} · ${t("js.missed")}` : t(`js.${one.outcome}`);
    const cells = [button, outcome, shown(one.score), shown(count(one.truth)), shown(lost(one)), one.difficulty, one.source,
      shown(count(one.calls)), (one.seconds ?? 0).toFixed(2)];
    const row = el("tr", { class: `row ${one.outcome}${count(one.missed) ? " warned" : ""}`, "data-case": one.id },
      cells.map((cell, at) => el("td", { class: at > 1 && at !== 5 && at !== 6 ? "right" : null }, cell)));
    const item = { one, row, button, detail: null, keys: null };
    button.addEventListener("click", () => toggle(item));
    return item;
  });
  function toggle(item, open = !item.detail || item.detail.hidden) {
    if (open && !item.detail) {
      item.detail = el("tr", { class: "detail" }, el("td", { colspan: columns.length }, caseView(item.one)));
      item.row.after(item.detail);
    }
    if (item.detail) item.detail.hidden = !open;
    item.button.setAttribute("aria-expanded", String(open));
  }

  // What a filter can choose among is what the run holds.
  const keysOf = {
    outcome: (one) => [one.outcome, ...(count(one.missed) ? ["missed"] : [])], difficulty: (one) => [one.difficulty],
    source: (one) => [one.source], dimension: (one) => one.dimensions ?? [], tag: (one) => one.tags ?? [],
    lost: (one) => (one.funnel ?? []).map((row) => row.lost_at).filter(Boolean), set: (one) => [one.set],
  };
  const named = { outcome: (key) => t(`js.${key}`), lost: (key) => t(`stage.${key}`) };
  const order = { lost: ["extracted", "labelled", "resolved", "aggregated", "placed", "injected", "found"], difficulty: ["easy", "medium", "hard", "unspecified"] };
  for (const [name, keys] of Object.entries(keysOf)) {
    const found = new Set();
    for (const one of data.cases) for (const key of keys(one)) found.add(key);
    const sorted = [...found].sort();
    const known = order[name];
    if (known) sorted.sort((a, b) => known.indexOf(a) - known.indexOf(b));
    for (const key of sorted) form.elements[name].append(el("option", { value: key }, named[name] ? named[name](key) : key));
    if (found.size < 2 && name !== "lost") form.elements[name].parentElement.hidden = name === "set";
  }
  function searched(item) {
    if (item.text === undefined) {
      const one = item.one;
      const parts = [one.id, ...(one.truth ?? []).map((memory) => memory?.content), ...(one.outputs?.l1 ?? []).map((memory) => memory.content),
        ...(one.input?.conversation ?? []).map((message) => message.content), ...(one.errors ?? []).map((error) => error.message)];
      item.text = parts.filter(Boolean).join("\n").toLowerCase();
    }
    return item.text;
  }
  const status = document.getElementById("shown");
  const nothing = el("tr", { hidden: true }, el("td", { colspan: columns.length }, t("js.no_match")));
  function filter() {
    const text = form.elements.text.value.trim().toLowerCase();
    const wanted = Object.keys(keysOf).map((name) => [name, form.elements[name].value]).filter(([, value]) => value);
    let number = 0;
    for (const item of rows) {
      const keep = wanted.every(([name, value]) => keysOf[name](item.one).includes(value)) && (!text || searched(item).includes(text));
      item.row.hidden = !keep;
      if (item.detail && !keep) toggle(item, false);
      number += keep;
    }
    nothing.hidden = number > 0;
    status.textContent = t("js.shown", { shown: number, total: rows.length });
  }
  let sorted = null;
  function sort(at) {
    const down = sorted?.at === at ? !sorted.down : false;
    sorted = { at, down };
    const key = columns[at][1];
    rows.sort((x, y) => {
      const a = key(x.one), b = key(y.one);
      if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;   // what was not measured stays last
      const less = typeof a === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0;
      return down ? -less : less;
    });
    heads.forEach((head, number) => head.setAttribute("aria-sort", number === at ? (down ? "descending" : "ascending") : "none"));
    body.replaceChildren(...rows.flatMap((item) => (item.detail ? [item.row, item.detail] : [item.row])), nothing);
  }
  columns.forEach(([name], at) => heads.push(el("th", { scope: "col", "aria-sort": "none", class: at > 1 && at !== 5 && at !== 6 ? "right" : null },
    el("button", { type: "button", onclick: () => sort(at) }, t(name)))));
  body.replaceChildren(...rows.map((item) => item.row), nothing);
  place.append(el("table", {}, el("thead", {}, el("tr", {}, heads)), body));

  let waiting = 0;
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 60); });
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();

  function follow() {
    const wanted = location.hash.startsWith("#case=") ? decodeURIComponent(location.hash.slice(6)) : null;
    const item = wanted === null ? null : rows.find((each) => each.one.id === wanted || each.one.name === wanted);
    if (!item) return;
    if (item.row.hidden) { form.reset(); filter(); }
    toggle(item, true);
    item.row.scrollIntoView({ block: "start" });
    item.button.focus({ preventScroll: true });
  }
  addEventListener("hashchange", follow);
  follow();
})();
