// In another tool's page: a case's place is filled when it is opened, and again when the language changes.
(() => {
  function fill(place) {
    place.querySelector(":scope > .memeval-view")?.remove();
    const one = memeval.byId.get(place.dataset.memevalCase);
    place.append(one ? memeval.caseView(one) : memeval.el("p", { class: "memeval-view" }, memeval.t("js.no_record")));
  }
  document.addEventListener("toggle", (event) => {
    const place = event.target;
    if (!(place instanceof HTMLElement) || !place.matches("details.memeval-case") || !place.open || place.dataset.filled) return;
    place.dataset.filled = "yes";
    fill(place);
  }, true);
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element) || !event.target.closest("#memeval-language")) return;
    memeval.swapLanguage();
    // The rows are another tool's, made anew when they are sorted: their summaries hold both languages.
    document.documentElement.dataset.memevalLang = memeval.lang;
    document.querySelectorAll("details.memeval-case[data-filled]").forEach(fill);
    document.getElementById("memeval-language").focus();
  });
})();
