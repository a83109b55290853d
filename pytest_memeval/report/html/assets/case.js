"use strict";
// Everything shown of a case. Texts only ever become text nodes: nothing here reads HTML.
const memeval = (() => {
  const holder = document.getElementById("memeval-data");
  const data = holder ? JSON.parse(holder.textContent) : { cases: [], texts: {}, lines: [], lang: "en" };
  const byId = new Map(data.cases.map((one) => [one.id, one]));
  let lang = data.lang ?? "en";
  const t = (key, values = {}) =>
    (data.texts[lang]?.[key] ?? key).replace(/\{(\w+)\}/g, (all, name) => (name in values ? String(values[name]) : all));

  function el(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child);
    return made;
  }
  const shown = (value) =>
    value === null || value === undefined ? "-" : typeof value !== "number" ? String(value)
      : Number.isInteger(value) ? String(value) : value.toFixed(3);
  // A measured value, which 0 and 1 are to as many places as any other; counts have none.
  const figure = (value) => (typeof value === "number" && Math.abs(value) < 2 ? value.toFixed(3) : shown(value));
  const chip = (text, kind = "") => el("span", { class: `chip ${kind}` }, text);
  const words = (text) => text ?? t("js.no_text");
  const lines = (numbers) => (numbers ?? []).map((number) => data.lines[number]).join("\n");
  const count = (list) => (Array.isArray(list) ? list.length : 0);
  function table(head, rows, kind = "") {
    return el("div", { class: "scroll" },
      el("table", { class: kind },
        el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, name)))),
        el("tbody", {}, rows.map((row) => (row instanceof Node ? row : el("tr", {}, row.map((cell) => el("td", {}, cell))))))));
  }

  // -- character differences: the longest common subsequence over code points
  const MOST_CELLS = 400000;
  function difference(before, after) {
    const a = Array.from(before), b = Array.from(after);
    if (a.length * b.length > MOST_CELLS) return before === after ? [["same", before]] : [["del", before], ["ins", after]];
    const width = b.length + 1;
    const best = new Uint16Array((a.length + 1) * width);
    for (let i = a.length - 1; i >= 0; i--)
      for (let j = b.length - 1; j >= 0; j--)
        best[i * width + j] = a[i] === b[j] ? best[(i + 1) * width + j + 1] + 1
          : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
    const parts = [];
    const add = (kind, sign) => {
      const last = parts[parts.length - 1];
      if (last && last[0] === kind) last[1] += sign; else parts.push([kind, sign]);
    };
    let i = 0, j = 0;
    while (i < a.length && j < b.length) {
      if (a[i] === b[j]) { add("same", a[i]); i++; j++; }
      else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) add("del", a[i++]);
      else add("ins", b[j++]);
    }
    while (i < a.length) add("del", a[i++]);
    while (j < b.length) add("ins", b[j++]);
    return parts;
  }
  const side = (parts, other) => el("span", { class: "text" },
    parts.filter(([kind]) => kind !== other).map(([kind, text]) => (kind === "same" ? text : el(kind, {}, text))));

  // -- parts of a case
  const title = (key) => el("h3", {}, t(key));
  const fold = (name, ...inside) => el("details", {}, el("summary", {}, name), ...inside);

  function head(one) {
    const kinds = { scored: "good", errored: "bad", skipped: "warn" };
    return el("p", {},
      chip(t(`js.${one.outcome}`), kinds[one.outcome]),
      [one.difficulty, one.source].filter((name) => name !== "unspecified").map((name) => chip(name)),
      (one.tags ?? []).map((tag) => chip(tag)), el("code", {}, one.line ? `${one.set}:${one.line}` : one.set), " ",
      document.getElementById("list") ? el("a", { href: `#case=${encodeURIComponent(one.id)}` }, t("js.link")) : null);
  }
  function errors(one) {
    if (!count(one.errors) && !count(one.missed)) return [];
    return [title("js.errors"),
      ...(one.errors ?? []).map((error) => el("p", { class: "error" }, `[${error.stage}] ${error.kind}: ${error.message}`)),
      ...(one.missed ?? []).map((missed) => el("p", { class: "error" }, `${t("js.missed")}: ${missed}`))];
  }
  function said(message, sources) {
    const when = message.time?.slice(0, 16).replace("T", " ");   // to the minute, as it was where it was said
    const who = [message.id, message.name ?? message.role, when].filter(Boolean).join(" · ");
    return el("div", { class: `message${sources ? " cited" : ""}` },
      el("span", { class: "who" }, who, sources ? ` · ${t("js.cited")} ${sources.map((n) => `#${n}`).join(" ")}` : ""),
      words(message.content));
  }
  function conversation(one, view) {
    const messages = one.input?.conversation;
    if (!count(messages)) return [];
    const cited = new Map();
    (one.truth ?? []).forEach((memory, index) => (memory?.source_message_ids ?? []).forEach((id) => {
      if (!cited.has(id)) cited.set(id, []);
      cited.get(id).push(index);
    }));
    return [title("js.conversation"), ...messages.map((message) => {
      const place = said(message, cited.get(message.id));
      view.messages.set(message.id, place);
      return place;
    })];
  }
  function labels(expected, missed, extra) {
    const right = (expected ?? []).filter((name) => !(missed ?? []).includes(name));
    return [...right.map((name) => chip(`✓ ${name}`, "good")),
      ...(missed ?? []).map((name) => chip(`− ${name} ${t("js.missed_label")}`, "bad")),
      ...(extra ?? []).map((name) => chip(`+ ${name} ${t("js.extra_label")}`, "warn"))];
  }
  function attributes(memory) {
    if (!memory) return null;
    const known = [memory.memory_type, memory.time_velocity, memory.priority].filter((value) => value !== null && value !== undefined);
    return el("div", {}, el("small", {}, known.map(shown).join(" · ")));
  }
  function point(view, memory) {
    const ids = memory?.source_message_ids ?? [];
    if (!ids.some((id) => view.messages.has(id))) return null;
    return el("button", { type: "button", onclick: () => {
      view.messages.forEach((place) => place.classList.remove("lit"));
      ids.forEach((id) => view.messages.get(id)?.classList.add("lit"));
      view.messages.get(ids.find((id) => view.messages.has(id)))?.scrollIntoView({ block: "nearest" });
    } }, ids.join(" "));
  }
  function memories(one, view) {
    const truths = one.truth ?? [], found = one.outputs?.l1 ?? [];
    if (!truths.length && !found.length) return [];
    const rows = [];
    const fold3 = (first, second, score, chips) => rows.push([first, second, score, chips]);
    const cell = (number, memory, text) => [el("small", {}, `#${number} `), text ?? el("span", { class: "text" }, words(memory?.content)),
      attributes(memory), point(view, memory)];
    for (const pair of one.pairs ?? []) {
      const a = truths[pair.truth], b = found[pair.pred];
      const both = typeof a?.content === "string" && typeof b?.content === "string";
      const parts = both ? difference(a.content, b.content) : null;
      const wrong = [pair.memory_type_right === false ? "memory_type" : null, pair.time_velocity_right === false ? "time_velocity" : null]
        .filter(Boolean).map((name) => chip(`✕ ${name}`, "warn"));
      fold3(cell(pair.truth, a, parts && side(parts, "ins")), cell(pair.pred, b, parts && side(parts, "del")),
        figure(pair.similarity), [...labels(a?.dimensions, pair.missed, pair.extra), ...wrong]);
    }
    const near = new Map((one.near ?? []).map((miss) => [miss.truth, miss]));
    for (const index of one.absent ?? []) {
      const close = near.get(index);
      const beside = close ? [el("span", { class: "warn-text" }, t("js.near")), el("br"), words(found[close.pred]?.content)]
        : el("span", { class: "bad-text" }, t("js.not_extracted"));
      fold3(cell(index, truths[index]), beside, close ? figure(close.similarity) : "-", labels([], truths[index]?.dimensions, []));
    }
    for (const index of one.extra ?? [])
      fold3(el("span", { class: "warn-text" }, t("js.not_expected")), cell(index, found[index]), "-", labels([], [], found[index]?.dimensions));
    if (!rows.length) found.forEach((memory, index) => fold3("-", cell(index, memory), "-", (memory.dimensions ?? []).map((name) => chip(name))));
    return [title("js.memories_title"),
      table([t("js.expected"), t("js.extracted"), t("js.similarity"), ""], rows, "memories")];
  }
  function way(one) {
    if (!count(one.funnel)) return [];
    const stages = ["extracted", "labelled", "resolved", "aggregated", "placed", "injected", "found"];
    const rows = one.funnel.map((row) => [`#${row.memory}`, words(one.truth?.[row.memory]?.content),
      ...stages.map((stage) => (row.lost_at === stage ? el("span", { class: "bad-text" }, `✕ ${t(`cause.${row.cause}`)}`)
        : row.kept.includes(stage) ? el("span", { class: "good-text" }, "✓") : "·"))]);
    return [title("js.way"), table(["", t("js.memory"), ...stages.map((stage) => t(`stage.${stage}`))], rows)];
  }
  function decisions(one) {
    const judged = one.details?.l15?.actions, made = one.outputs?.l15 ?? [];
    if (!count(judged) && !count(made)) return [];
    const parts = [title("js.decisions")];
    const stored = one.input?.existing_memories;
    if (count(stored)) parts.push(fold(`${t("js.stored")} (${stored.length})`,
      table([t("js.memory"), "", ""], stored.map((memory) => [el("code", {}, memory.memory_id ?? "-"), words(memory.content), (memory.dimensions ?? []).map((name) => chip(name))]))));
    const reached = new Map((one.pairs ?? []).map((pair) => [pair.truth, pair.pred]));
    if (count(judged)) parts.push(table([t("js.memory"), t("js.expected"), t("js.decided"), t("js.result"), t("js.reason")], judged.map((action) => {
      const decision = made.find((each) => each.memory_index === reached.get(action.memory));
      const mark = action.decision_right ? el("span", { class: "good-text" }, "✓") : el("span", { class: "bad-text" }, "✕");
      return [[`#${action.memory} `, words(one.truth?.[action.memory]?.content)],
        `${action.expected} ${(action.expected_targets ?? []).join(", ")}`, `${action.decided} ${(action.targets ?? []).join(", ")}`,
        mark, [decision?.merged_content ? el("div", { class: "text" }, decision.merged_content) : null, decision?.reason ?? ""]];
    })));
    else parts.push(table([t("js.memory"), t("js.decided"), t("js.targets"), t("js.reason")], made.map((decision) =>
      [`#${decision.memory_index}`, decision.action, (decision.target_ids ?? []).join(", "), decision.reason ?? ""])));
    return parts;
  }
  function scenes(one) {
    const made = one.outputs?.l2, judged = one.details?.l2?.scenes;
    if (!count(made) && !judged) return [];
    const matched = new Map((judged?.labels ?? []).map((label) => [label.pred, label]));
    const rows = (made ?? []).map((scene) => [words(scene.title), matched.get(scene.title)?.truth ?? "-",
      figure(matched.get(scene.title)?.similarity), (scene.memory_ids ?? []).map((id) => chip(id)), scene.change ?? ""]);
    for (const label of judged?.labels_missed ?? []) rows.push([el("span", { class: "bad-text" }, t("js.scene_missed")), words(label), "-", "", ""]);
    return [title("js.scenes"), table([t("js.extracted"), t("js.expected"), t("js.similarity"), t("js.memories"), ""], rows)];
  }
  function sections(one) {
    const units = one.details?.l2?.sections?.units, made = one.outputs?.template;
    if (!count(units) && !made) return [];
    const parts = [title("js.sections")];
    if (count(units)) parts.push(table([t("js.mode"), t("js.memory"), t("js.expected"), t("js.placed")], units.map((unit) => [
      unit.mode, [`#${unit.memory} `, words(one.truth?.[unit.memory]?.content)], unit.expected,
      el("span", { class: unit.placed.includes(unit.expected) ? "good-text" : "bad-text" }, unit.placed.join(", ") || "-")])));
    for (const [mode, list] of Object.entries(made ?? {})) parts.push(fold(mode, table([t("js.sections"), t("js.memories")],
      list.map((section) => [words(section.title), (section.memory_ids ?? []).map((id) => chip(id))]))));
    return parts;
  }
  function blocks(one) {
    const made = one.outputs?.inject, later = one.input?.subsequent_conversation;
    if (!made && !count(later)) return [];
    const parts = [];
    for (const kind of ["pipeline", "labelled"]) {
      if (!made?.[kind]) continue;
      const relevant = one.details?.inject?.[kind]?.relevant_blocks ?? [];
      const place = fold(t(`js.${kind}`), ...made[kind].map((block) => el("div", {},
        el("p", {}, words(block.title), " ", block.present ? null : chip(t("js.absent")),
          relevant.includes(block.title) ? chip(t("js.referenced"), "good") : null),
        block.text ? el("pre", {}, block.text) : null)));
      place.open = count(later) > 0 && parts.length === 0;
      parts.push(place);
    }
    if (!count(later)) return [title("js.blocks"), ...parts];
    return [el("div", { class: "beside" },
      el("div", {}, title("view.later"), ...later.map((message) => said(message))),
      el("div", {}, title("view.injected"), ...parts))];
  }
  function calls(one) {
    if (!count(one.calls)) return [];
    return [title("js.model_calls"), ...one.calls.map((call) => {
      const tokens = `${shown(call.in)} / ${shown(call.out)}`;
      const said = [call.stage, call.version, call.model, `${t("js.tokens")} ${tokens}`,
        call.latency === undefined ? null : `${t("js.latency")} ${call.latency.toFixed(3)} s`,
        call.cached ? t("js.cached") : null, call.error ? `✕ ${call.error}` : null].filter(Boolean).join(" · ");
      const place = fold(said);
      place.addEventListener("toggle", () => {
        if (place.childElementCount > 1) return;
        for (const [role, text] of call.prompt ?? []) place.append(el("p", {}, el("small", {}, `${t("js.prompt")} (${role})`)), el("pre", {}, text ? lines(text) : t("js.no_text")));
        place.append(el("p", {}, el("small", {}, t("js.answer"))), el("pre", {}, call.answer ? lines(call.answer) : t("js.no_text")));
      });
      return place;
    })];
  }
  function figures(one) {
    const rows = [];
    for (const [section, values] of Object.entries(one.values ?? {}))
      for (const [name, value] of Object.entries(values)) rows.push([el("code", {}, `${section}.${name}`), figure(value)]);
    return rows.length ? [fold(`${t("js.figures")} (${rows.length})`, table(["", ""], rows))] : [];
  }
  // What other kinds of case hold (questions, samples), and what engines noted, as it is.
  function rest(one) {
    const known = ["l1", "l15", "l2", "template", "inject"];
    const parts = [];
    const outputs = Object.fromEntries(Object.entries(one.outputs ?? {}).filter(([name]) => !known.includes(name)));
    const details = Object.fromEntries(Object.entries(one.details ?? {}).filter(([name]) => !known.includes(name)));
    const json = (name, value) => parts.push(fold(name, el("pre", {}, JSON.stringify(value, null, 1))));
    if (Object.keys(outputs).length || Object.keys(details).length) {
      const open = one.kind !== "distill";
      json(t("js.outputs"), { ...outputs, ...(Object.keys(details).length ? { details } : {}) });
      parts[parts.length - 1].open = open;
    }
    if (count(one.facts)) json(`${t("js.notes")} (${one.facts.length})`, one.facts);
    return parts;
  }
  return {
    data, byId, t, el, shown, figure, chip, words, count, table, title, fold,
    parts: { head, errors, conversation, memories, way, decisions, scenes, sections, blocks, calls, figures, rest },
    get lang() { return lang; },
    set lang(name) { lang = name; },
  };
})();
