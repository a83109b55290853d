// In another tool's page: a case's place is filled when it is opened.
document.addEventListener("toggle", (event) => {
  const place = event.target;
  if (!(place instanceof HTMLElement) || !place.matches("details.memeval-case") || !place.open || place.dataset.filled) return;
  place.dataset.filled = "yes";
  const one = memeval.byId.get(place.dataset.memevalCase);
  place.append(one ? memeval.caseView(one) : memeval.el("p", {}, memeval.t("js.no_record")));
}, true);
