// Questions, RAG samples, searches, trials; and what a case shows in which order.
(() => {
  const { data, t, el, figure, chip, words, count, table, title, fold, parts } = memeval;
  const text = (value) => el("span", { class: "text" }, words(value));
  const good = (value) => el("span", { class: "good-text" }, value);
  const bad = (value) => el("span", { class: "bad-text" }, value);
  const facts = (rows) => el("dl", { class: "facts said" },
    rows.filter(Boolean).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  const mark = (yes) => (yes ? good("✓") : bad("✕"));

  function verdicts(view) {
    if (!view.verdicts.length) return [el("p", { class: "faint" }, t("view.not_judged"))];
    return [table([t("view.verdict"), t("view.mode"), t("view.reason")], view.verdicts.map((one) => [
      [one.right ? good(`✓ ${t("view.right")}`) : bad(`✕ ${t("view.wrong")}`), ` (${figure(one.score)})`,
        one.corrected ? el("small", {}, ` ${t("view.of_corrected")}`) : null],
      one.mode ?? t("view.by_rule"), one.reason === "" ? "-" : text(one.reason)]))];
  }
  function evidence(view) {
    if (!view.told) return [title("view.evidence"), el("p", { class: "faint" }, t("view.not_told"))];
    const found = view.evidence.filter((row) => row.rank !== null && row.rank !== undefined).length;
    const made = [];
    if (view.evidence.length) made.push(
      el("p", {}, t("view.evidence_share", { found, of: view.evidence.length })),
      table([t("view.rank"), t("view.message"), ""], view.evidence.map((row) => [
        row.rank ? good(`✓ ${row.rank}`) : bad(`✕ ${t("view.not_found")}`), el("code", {}, row.id ?? "-"),
        row.content === null || row.content === undefined ? "" : text(row.content)])));
    if (view.retrieved.length) made.push(fold(`${t("view.retrieved")} (${view.retrieved.length + view.more})`,
      el("ol", { class: "ranking" }, view.retrieved.map((hit) => el("li", { class: hit.hit ? "hit" : null },
        el("code", {}, hit.id ?? "-"), hit.hit ? good(" ✓") : null))),
      view.more ? el("p", {}, t("view.more", { count: view.more })) : null));
    return made.length ? [title("view.evidence"), ...made] : [];
  }
  function question(one) {
    const view = one.qa;
    if (!view) return [];
    const truth = view.truth === "" ? el("em", {}, t("view.refusal")) : text(view.truth);
    return [title("view.question"),
      el("p", { class: "asked" }, text(view.question)),
      el("p", {},
        view.category ? chip(t("view.category", { category: view.category })) : null,
        view.date ? el("small", {}, t("view.asked_on", { date: view.date })) : null),
      facts([[t("view.truth"), truth],
        view.corrects ? [t("view.corrected"), text(view.corrected)] : null,
        view.trap ? [t("view.trap"), text(view.trap)] : null,
        [t("view.answer"), text(view.answer)],
        ...Object.entries(view.arms).map(([arm, answer]) => [t("view.arm", { arm }), text(answer)])]),
      el("p", {}, Object.entries(view.figures).map(([name, value]) => chip(`${name} ${figure(value)}`)),
        view.tokens ? el("small", {}, t("view.tokens", { count: view.tokens })) : null),
      title("view.verdicts"), ...verdicts(view), ...evidence(view)];
  }

  const score = (value) => (value === null || value === undefined ? el("span", { class: "faint" }, t("view.not_measured"))
    : value === true ? good(`✓ ${t("view.yes")}`) : value === false ? bad(`✕ ${t("view.no")}`) : figure(value));
  function sample(one) {
    const view = one.rag;
    if (!view) return [];
    const none = () => el("span", { class: "faint" }, t("view.none_given"));
    const known = view.contexts.some((row) => row.relevant !== null && row.relevant !== undefined);
    const passages = view.contexts.map((row, at) => [String(at + 1),
      ...(known ? [row.relevant ? good(`✓ ${t("view.relevant")}`) : bad(`✕ ${t("view.irrelevant")}`)] : []), text(row.text)]);
    const rows = [];
    for (const row of view.scores) {
      const name = row.evaluator === null ? "" : el("code", {}, row.evaluator);
      const reason = row.reason === null ? "" : text(row.reason);
      const metrics = Object.entries(row.metrics);
      if (row.failed) rows.push([name, "-", bad(`✕ ${t("view.failed")}`), reason]);
      else if (!metrics.length) rows.push([name, "-", "-", reason]);
      metrics.forEach(([metric, value], at) => rows.push([at ? "" : name, el("code", {}, metric), score(value), at ? "" : reason]));
    }
    return [title("view.sample"), el("p", { class: "asked" }, text(view.query)),
      facts([[t("view.response"), view.has_response ? text(view.response) : none()],
        [t("view.reference"), view.has_reference ? text(view.reference) : none()]]),
      ...(rows.length ? [title("view.scores"), table(["evaluator", "metric", "value", "reason"].map((name) => t(`view.${name}`)), rows)] : []),
      title("view.contexts"),
      known || !passages.length ? null : el("p", { class: "faint" }, t("view.unknown_relevance")),
      passages.length ? table([t("view.rank"), ...(known ? [""] : []), t("view.passage")], passages) : el("p", {}, none()),
      ...(view.references.length ? [fold(`${t("view.references")} (${view.references.length})`,
        el("ul", {}, view.references.map((one) => el("li", {}, text(one)))))] : [])];
  }
  // A corpus is made of all cases' labelled memories: ``case#index`` names one.
  const names = new Map(data.cases.map((one) => [`${one.set} ${one.name}`, one]));
  function remembered(one, id) {
    const at = String(id).lastIndexOf("#");
    return names.get(`${one.set} ${String(id).slice(0, at)}`)?.truth?.[Number(String(id).slice(at + 1))]?.content ?? "";
  }
  function searches(one) {
    if (!count(one.search)) return [];
    return [title("view.search"), ...one.search.map((row) => {
      const said = Object.entries(row.figures).map(([name, value]) => `${name} ${figure(value)}`).join(" · ");
      return fold([words(row.query), el("small", {}, ` ${said}`)],
        el("ol", { class: "ranking" }, row.hits.map((hit) => el("li", { class: hit.relevant ? "hit" : null },
          el("code", {}, hit.id ?? "-"), hit.relevant ? good(" ✓ ") : " ", hit.content ?? remembered(one, hit.id)))),
        count(row.missed) ? el("p", {}, bad(`✕ ${t("view.missed_hits", { count: row.hits.length })}: `), row.missed.map((id) => chip(id ?? "-"))) : null);
    })];
  }
  function trials(one) {
    if (!count(one.trials)) return [];
    const answered = one.trials.some((row) => row.answer !== undefined);
    const main = one.metric;
    const rows = one.trials.map((row) => [String(row.trial), t(`js.${row.outcome}`),
      row.passed === undefined || row.passed === null ? "-" : [mark(row.passed), ` ${t(row.passed ? "view.held" : "view.missed")}`],
      main === undefined ? "-" : figure(row.figures[main]),
      ...(answered ? [text(row.answer)] : []), (row.errors ?? []).map((error) => el("p", { class: "error" }, error))]);
    const spread = Object.entries(one.spread ?? {}).map(([name, found]) => [el("code", {}, name),
      ...["mean", "sd", "low", "high"].map((key) => figure(found[key]))]);
    return [title("view.trials"),
      table([t("view.trial"), t("js.outcome"), t("view.passed"), main ?? t("view.value"), ...(answered ? [t("view.answer")] : []), ""], rows),
      ...(spread.length ? [fold(`${t("js.figures")} (${spread.length})`,
        table(["", ...["mean", "sd", "low", "high"].map((key) => t(`trials.${key}`))], spread))] : [])];
  }

  memeval.caseView = (one) => {
    const view = { messages: new Map() };
    const said = parts.conversation(one, view);
    return el("div", { class: "memeval-view" }, parts.head(one), parts.errors(one), question(one), sample(one), said,
      parts.memories(one, view), parts.way(one), parts.decisions(one), parts.scenes(one), parts.sections(one), parts.blocks(one),
      searches(one), trials(one), parts.calls(one), parts.figures(one), parts.rest(one));
  };

  // The other language's half lies in a template; what was opened stays open.
  memeval.swapLanguage = () => {
    const part = document.getElementById("memeval-part"), other = document.getElementById("memeval-other");
    const opened = [...part.querySelectorAll("details")].map((one) => one.open);
    const waiting = [...other.content.childNodes];
    other.content.append(...part.childNodes);
    part.append(...waiting);
    [part.lang, other.lang] = [other.lang, part.lang];
    memeval.lang = part.lang;
    part.querySelectorAll("details").forEach((one, at) => { one.open = opened[at] ?? false; });
  };
})();
