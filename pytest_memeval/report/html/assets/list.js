// The list of cases: sorting, filters, links, keyboard, the language. It is built anew when the language changes.
(() => {
  const { data, t, el, shown, count } = memeval;
  const root = document.body;
  const STAGES = ["extracted", "labelled", "resolved", "aggregated", "placed", "injected", "found"];
  const lost = (one) => (one.funnel ?? []).filter((row) => row.lost_at).length;
  const typeOf = (one) => one.qa?.type ?? null;
  const some = (has) => data.cases.some(has);
  const several = new Set(data.cases.map((one) => one.set)).size > 1;
  // Title, key to sort by, what is shown, whether it is a number. What no case has gets no column.
  const columns = [
    ["js.case", (one) => one.id, null, false],
    ["js.outcome", (one) => one.outcome, (one) => [t(`js.${one.outcome}`), ...(count(one.missed) ? [t("js.missed")] : [])].join(" · "), false],
    ["js.score", (one) => one.score ?? null, (one) => memeval.figure(one.score), true],
    ...(some(typeOf) ? [["view.type", typeOf, (one) => typeOf(one) ?? "-", false]] : []),
    ...(some((one) => one.kind === undefined || one.kind === "distill") ? [
      ["js.memories", (one) => count(one.truth), (one) => shown(count(one.truth)), true], ["js.lost", lost, (one) => shown(lost(one)), true]] : []),
    ...["difficulty", "source"].filter((name) => some((one) => one[name] !== "unspecified"))
      .map((name) => [`js.${name}`, (one) => one[name], (one) => one[name], false]),
    ["js.calls", (one) => count(one.calls), (one) => shown(count(one.calls)), true],
    ["js.seconds", (one) => one.seconds ?? 0, (one) => (one.seconds ?? 0).toFixed(2), true],
  ];
  // What a filter can choose among is what the run holds.
  const evidence = (one) => {
    const rows = one.qa?.told ? one.qa.evidence : [];
    const found = rows.filter((row) => row.rank !== null && row.rank !== undefined).length;
    return rows.length ? [found === rows.length ? "all" : found ? "part" : "none"] : [];
  };
  const keysOf = {
    outcome: (one) => [one.outcome, ...(count(one.missed) ? ["missed"] : [])], difficulty: (one) => [one.difficulty],
    source: (one) => [one.source], type: (one) => [typeOf(one)].filter(Boolean), evidence,
    dimension: (one) => one.dimensions ?? [], tag: (one) => one.tags ?? [],
    lost: (one) => (one.funnel ?? []).map((row) => row.lost_at).filter(Boolean), set: (one) => [one.set],
  };
  const named = { outcome: (key) => t(`js.${key}`), lost: (key) => t(`stage.${key}`), evidence: (key) => t(`js.evidence_${key}`) };
  const order = { lost: STAGES, difficulty: ["easy", "medium", "hard", "unspecified"], evidence: ["all", "part", "none"] };
  const texts = new Map();
  function searched(one) {
    if (!texts.has(one)) {
      const parts = [one.id, ...(one.truth ?? []).map((memory) => memory?.content), ...(one.outputs?.l1 ?? []).map((memory) => memory.content),
        ...(one.input?.conversation ?? []).map((message) => message.content), ...(one.errors ?? []).map((error) => error.message),
        one.qa?.question, one.qa?.answer, one.qa?.truth, one.rag?.query, one.rag?.response, one.rag?.reference,
        ...(one.search ?? []).map((row) => row.query)];
      texts.set(one, parts.filter(Boolean).join("\n").toLowerCase());
    }
    return texts.get(one);
  }

  const cases = data.cases.slice();
  let sorted = null;
  function build(opened) {
    const form = document.getElementById("filters"), place = document.getElementById("list"), status = document.getElementById("shown");
    const body = el("tbody");
    const rows = cases.map((one) => {
      const button = el("button", { type: "button", "aria-expanded": "false" }, several ? one.id : one.id.slice(one.set.length + 2) || one.id);
      const cells = columns.map(([, , say, number], at) => el("td", { class: number ? "right" : null }, at ? say(one) : button));
      const row = el("tr", { class: `row ${one.outcome}${count(one.missed) ? " warned" : ""}`, "data-case": one.id }, cells);
      const item = { one, row, button, detail: null };
      button.addEventListener("click", () => toggle(item));
      return item;
    });
    function toggle(item, open = !item.detail || item.detail.hidden) {
      if (open && !item.detail) {
        item.detail = el("tr", { class: "detail" }, el("td", { colspan: columns.length }, memeval.caseView(item.one)));
        item.row.after(item.detail);
      }
      if (item.detail) item.detail.hidden = !open;
      item.button.setAttribute("aria-expanded", String(open));
    }
    for (const [name, keys] of Object.entries(keysOf)) {
      const found = new Set(), field = form.elements[name];
      for (const one of data.cases) for (const key of keys(one)) found.add(key);
      const known = order[name], sortedKeys = [...found].sort();
      if (known) sortedKeys.sort((a, b) => known.indexOf(a) - known.indexOf(b));
      field.replaceChildren(field.options[0], ...sortedKeys.map((key) => el("option", { value: key }, named[name] ? named[name](key) : key)));
      field.parentElement.hidden = found.size < ({ set: 2, difficulty: 2, source: 2 }[name] ?? 1);
    }
    const nothing = el("tr", { hidden: true }, el("td", { colspan: columns.length }, t("js.no_match")));
    function filter() {
      const text = form.elements.text.value.trim().toLowerCase();
      const wanted = Object.keys(keysOf).map((name) => [name, form.elements[name].value]).filter(([, value]) => value);
      let number = 0;
      for (const item of rows) {
        const keep = wanted.every(([name, value]) => keysOf[name](item.one).includes(value)) && (!text || searched(item.one).includes(text));
        item.row.hidden = !keep;
        if (item.detail && !keep) toggle(item, false);
        number += keep;
      }
      nothing.hidden = number > 0;
      status.textContent = t("js.shown", { shown: number, total: rows.length });
    }
    const heads = columns.map(([name, , , number], at) => el("th", { scope: "col", class: number ? "right" : null },
      el("button", { type: "button", onclick: () => sort(at) }, t(name))));
    function arrange() {
      if (sorted) {
        const key = columns[sorted.at][1];
        rows.sort((x, y) => {
          const a = key(x.one), b = key(y.one);
          if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;   // what was not measured stays last
          const less = typeof a === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0;
          return sorted.down ? -less : less;
        });
      }
      heads.forEach((head, at) => head.setAttribute("aria-sort", sorted?.at === at ? (sorted.down ? "descending" : "ascending") : "none"));
      body.replaceChildren(...rows.flatMap((item) => (item.detail ? [item.row, item.detail] : [item.row])), nothing);
    }
    function sort(at) {
      sorted = { at, down: sorted?.at === at ? !sorted.down : false };
      arrange();
    }
    function follow() {
      const wanted = location.hash.startsWith("#case=") ? decodeURIComponent(location.hash.slice(6)) : null;
      const item = wanted === null ? null : rows.find((each) => each.one.id === wanted || each.one.name === wanted);
      if (!item) return;
      if (item.row.hidden) { form.reset(); filter(); }
      toggle(item, true);
      item.row.scrollIntoView({ block: "start" });
      item.button.focus({ preventScroll: true });
    }
    // The form lies in the template while the other language is shown, and comes back: what listens goes with the list.
    const gone = new AbortController(), { signal } = gone;
    let waiting = 0;
    form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 60); }, { signal });
    form.addEventListener("reset", () => setTimeout(filter), { signal });
    form.addEventListener("submit", (event) => event.preventDefault(), { signal });
    arrange();
    place.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, heads)), body));
    for (const item of rows) if (opened.has(item.one)) toggle(item, true);
    return {
      filter, follow,
      state: () => ({
        values: Object.fromEntries([...form.elements].filter((field) => field.name).map((field) => [field.name, field.value])),
        opened: new Set(rows.filter((item) => item.detail && !item.detail.hidden).map((item) => item.one)),
      }),
      clear: () => { gone.abort(); clearTimeout(waiting); place.replaceChildren(); },
    };
  }

  let list = build(new Set());
  list.filter();
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("button") : null;
    if (button?.id === "theme") {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    }
    if (button?.id === "memeval-language") {
      const { values, opened } = list.state();
      list.clear();
      memeval.swapLanguage();
      document.documentElement.lang = memeval.lang;
      const heading = document.querySelector("h1").textContent;
      document.title = document.title.includes(": ") ? heading + document.title.slice(document.title.indexOf(": ")) : heading;
      list = build(opened);
      const form = document.getElementById("filters");
      for (const [name, value] of Object.entries(values)) form.elements[name].value = value;
      list.filter();
      document.getElementById("memeval-language").focus();
    }
  });
  addEventListener("hashchange", () => list.follow());
  list.follow();
})();
