"""``memeval agreement``, ``calibrate-matching`` and ``new-case``, and what ``validate`` says of labels."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.cli.support import configured, say

if TYPE_CHECKING:
    from pytest_memeval.cases.agreement import Agreement
    from pytest_memeval.cases.models import CaseSet
    from pytest_memeval.metrics.calibration import Calibration, LabelledPair
    from pytest_memeval.metrics.kappa import Kappa
    from pytest_memeval.metrics.stats import Estimate

#: As many hints of one rule are shown, unless all are asked for.
SHOWN_HINTS = 5


def add_label_commands(commands: Any) -> None:
    """Register the commands about labels with the sub-commands of ``memeval``."""
    agreement = commands.add_parser("agreement", help="how far two labellings of the same conversations agree")
    agreement.add_argument("first", type=Path, metavar="A", help="case file; alone, compared with its 'annotations'")
    agreement.add_argument("second", type=Path, nargs="?", metavar="B", help="case file with the second labelling")
    agreement.add_argument("--annotator", metavar="NAME", help="whose 'annotations' are the second labelling")
    agreement.add_argument("--registry", type=Path, help="registry for files that name none")
    agreement.add_argument("--templates", type=Path, help="templates for files that name none")
    agreement.add_argument("--matcher", default="indel", help="how memories are matched, as in pytest")
    agreement.add_argument("--match-threshold", type=float, default=0.5, help="similarity from which two match")
    agreement.add_argument(
        "--not-independent", action="store_true", help="say that one author or model made both labellings"
    )
    agreement.add_argument("--json", action="store_true", help="print JSON")
    agreement.set_defaults(command=_agreement)

    calibrate = commands.add_parser(
        "calibrate-matching", help="how well each similarity tells pairs of texts that say the same from others"
    )
    calibrate.add_argument("pairs", type=Path, metavar="PAIRS", help="JSON Lines of {a, b, same, …}")
    calibrate.add_argument(
        "--tuned-on", type=Path, metavar="PAIRS", help="choose each similarity's threshold on these pairs instead"
    )
    calibrate.add_argument("--similarity", action="append", metavar="NAME", help="only this one; repeatable")
    calibrate.add_argument("--curve", action="store_true", help="print every threshold, not only the best")
    calibrate.add_argument("--json", action="store_true", help="print JSON")
    calibrate.set_defaults(command=_calibrate)

    new = commands.add_parser("new-case", help="make a case to label out of a pasted conversation")
    new.add_argument("file", metavar="FILE", help="chat JSON (OpenAI, ShareGPT) or text with speakers; - for stdin")
    new.add_argument("--case-id", default="new-001", metavar="ID")
    new.add_argument("--start", metavar="TIME", help="ISO time of the first message that has none (default: now)")
    new.add_argument("--no-mask", action="store_true", help="keep secrets, e-mail addresses and phone numbers")
    new.set_defaults(command=_new_case)


# -- validate


def say_review(case_set: CaseSet, *, all_hints: bool, stats: bool) -> int:
    """Print what a review of the labels finds and, if wanted, the set's statistics. Returns the number of warnings."""
    from pytest_memeval.cases.lint import review
    from pytest_memeval.cases.statistics import set_statistics, statistics_lines

    findings = review(case_set)
    hints: Counter[str] = Counter()
    for finding in findings:
        if finding.level == "hint":
            hints[finding.rule] += 1
            if hints[finding.rule] > SHOWN_HINTS and not all_hints:
                continue
        say(str(finding))
    if not all_hints:
        for rule, count in hints.items():
            if count > SHOWN_HINTS:
                more = count - SHOWN_HINTS
                say(f"{case_set.path}: {more} more of the hint {rule}; --hints lists them")
    if stats and case_set.cases:
        for line in statistics_lines(set_statistics(case_set)):
            say(line)
    return sum(finding.level == "warning" for finding in findings)


# -- agreement


def _agreement(arguments: argparse.Namespace) -> int:
    from pytest_memeval.assets.registry import load_registry
    from pytest_memeval.assets.templates import load_templates
    from pytest_memeval.cases.agreement import AgreementError, compare, labelled_twice
    from pytest_memeval.options import SettingsError
    from pytest_memeval.settings.texts import matcher_of

    registry = load_registry(arguments.registry or configured("memeval_registry"))
    templates = load_templates(arguments.templates or configured("memeval_templates"), registry)
    one = _load(arguments.first, registry, templates)
    two = _load(arguments.second, registry, templates) if arguments.second is not None else None
    try:
        if ":" in arguments.matcher:
            from pytest_memeval.cli.doctor import import_from_here

            import_from_here()
        matcher = matcher_of(arguments.matcher, arguments.match_threshold, "--matcher")
        cases, only_one, only_two = labelled_twice(one, two, arguments.annotator)
    except (AgreementError, ValueError) as error:
        raise SettingsError(str(error)) from None
    known = one.registry if one.registry is not None else registry
    result = compare(cases, known.ids, only_one=only_one, only_two=only_two, matcher=matcher)
    notes = [note for found in (one, two) if found is not None and (note := found.meta.extra.get("annotations_note"))]
    dependent = arguments.not_independent or bool(notes)
    if arguments.json:
        document = {**result.as_dict(), "independent": False if dependent else None, "notes": notes}
        say(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
        return 0
    for line in _agreement_lines(result, dependent, notes):
        say(line)
    return 0


def _load(path: Path, registry: Any, templates: Any) -> CaseSet:
    """A case file whose labels can all be read. Raises DocumentError."""
    from pytest_memeval.cases.loader import load_case_set
    from pytest_memeval.documents.problems import DocumentError

    case_set = load_case_set(path, registry=registry, templates=templates)
    problems = [*case_set.problems, *(problem for case in case_set.cases for problem in case.problems)]
    if problems:
        raise DocumentError(problems)
    return case_set


def _agreement_lines(result: Agreement, dependent: bool, notes: Sequence[str]) -> list[str]:
    from pytest_memeval.cases.agreement import TARGET
    from pytest_memeval.report.console import columns

    lines = [
        f"{result.cases} cases, {result.memories[0]} and {result.memories[1]} memories, {result.matched} matched: "
        f"{_estimate(result.matched_of_one)} of the first's, {_estimate(result.matched_of_two)} of the second's"
    ]
    if dependent:
        lines.append("not independent" + (": " + "; ".join(notes) if notes else ": one author or model made both"))
    for which, missing in (("first", result.only_one), ("second", result.only_two)):
        if missing:
            lines.append(f"only in the {which}: {_names(missing)}")
    rows = [["", "kappa", "95 %", "agreement", "units", ""]]
    named = [("all dimensions", result.overall), *((f"  {name}", kappa) for name, kappa in result.dimensions.items())]
    named += [("memory_type", result.memory_type), ("time_velocity", result.time_velocity)]
    rows += [[name, *_kappa_cells(kappa)] for name, kappa in named]
    lines += columns(rows, right=frozenset((1, 3, 4)))
    correlation = result.priority_correlation
    lines.append(
        f"equal dimension sets: {_estimate(result.same_dimensions)}; priority: apart by "
        f"{_estimate(result.priority_mae)} on average, within 10: {_estimate(result.priority_within)}, correlation "
        f"{'-' if correlation is None else f'{correlation:.2f}'}"
    )
    overall = result.overall.value
    verdict = "not measured" if overall is None else "reached" if overall >= TARGET else "not reached"
    lines.append(f"target for all dimensions {TARGET:.2f}: {verdict}")
    count = len(result.disagreements)
    lines.append(f"to settle: {count} disagreement{'' if count == 1 else 's'}")
    return [*lines, *(str(problem) for problem in result.disagreements)]


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _estimate(estimate: Estimate) -> str:
    if estimate.value is None:
        return "-"
    interval = "" if estimate.low is None else f" [{estimate.low:.2f}, {estimate.high:.2f}]"
    return f"{estimate.value:.2f}{interval}"


def _kappa_cells(kappa: Kappa) -> list[str]:
    return [
        "-" if kappa.value is None else f"{kappa.value:.2f}",
        "" if kappa.low is None else f"[{kappa.low:.2f}, {kappa.high:.2f}]",
        "-" if kappa.agreement is None else f"{kappa.agreement:.2f}",
        str(kappa.units),
        kappa.reason or "",
    ]


# -- calibrate-matching


def _calibrate(arguments: argparse.Namespace) -> int:
    from pytest_memeval.documents.problems import did_you_mean
    from pytest_memeval.metrics.calibration import calibrate, read_pairs
    from pytest_memeval.metrics.matching import SIMILARITIES
    from pytest_memeval.options import SettingsError

    names = list(dict.fromkeys(arguments.similarity or SIMILARITIES))
    for name in names:
        if name not in SIMILARITIES:
            raise SettingsError(f"--similarity: unknown similarity {name!r}{did_you_mean(name, SIMILARITIES)}")
    pairs = read_pairs(arguments.pairs)
    tuned: dict[str, Calibration] = {}
    if arguments.tuned_on is not None:
        tuning = read_pairs(arguments.tuned_on)
        tuned = {name: calibrate(tuning, name) for name in names}
    results = {
        name: calibrate(pairs, name, threshold=tuned[name].best.threshold if name in tuned else None) for name in names
    }
    differences = _differences(pairs, results, tuned)
    if arguments.json:
        document = {
            "pairs": len(pairs),
            "same": sum(pair.same for pair in pairs),
            "clusters": len({pair.cluster for pair in pairs}),
            "thresholds_chosen_on": str(arguments.tuned_on) if tuned else None,
            "similarities": {name: result.as_dict() for name, result in results.items()},
            "differences": differences,
        }
        say(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
        return 0
    for line in _calibration_lines(arguments, pairs, results, differences):
        say(line)
    return 0


def _differences(
    pairs: Sequence[LabelledPair], results: dict[str, Calibration], tuned: dict[str, Calibration]
) -> list[dict[str, Any]]:
    """Each similarity against the best one of letters alone (best where the thresholds were chosen), and one that is
    not of letters alone against all that are."""
    from pytest_memeval.metrics.calibration import STRING_SIMILARITIES, accuracy_difference, interval_of

    judged = tuned or results
    plain = [name for name in results if name in STRING_SIMILARITIES]
    if not plain:
        return []
    best = max(plain, key=lambda name: judged[name].best.accuracy or 0.0)
    found = []
    for name, against in [(one, base) for one in results for base in plain]:
        if name == against or (name in plain and against != best):
            continue
        # without other pairs to choose on, the base has the advantage of its best threshold on these
        base_threshold = (results[against].chosen if tuned else results[against].best).threshold
        threshold = results[name].chosen.threshold
        difference = accuracy_difference(pairs, (against, base_threshold), (name, threshold))
        found.append(
            {
                "similarity": name,
                "threshold": threshold,
                "against": against,
                "against_threshold": base_threshold,
                "accuracy_difference": difference.difference,
                "interval": interval_of(difference),
                "p_value": difference.p_value,
                "reason": difference.reason,
            }
        )
    return found


def _calibration_lines(
    arguments: argparse.Namespace,
    pairs: Sequence[LabelledPair],
    results: dict[str, Calibration],
    differences: Sequence[dict[str, Any]],
) -> list[str]:
    from pytest_memeval.report.console import columns

    same = sum(pair.same for pair in pairs)
    clusters = len({pair.cluster for pair in pairs})
    where = f"chosen on {arguments.tuned_on}" if arguments.tuned_on is not None else "the default"
    lines = [f"{len(pairs)} pairs, {same} the same, {clusters} clusters; thresholds judged: {where}"]
    rows = [["similarity", "threshold", "precision", "recall", "F1", "accuracy", "95 %", "best threshold", "accuracy"]]
    for name, result in results.items():
        rows.append(
            [
                name,
                f"{result.chosen.threshold:.2f}",
                *_point_cells(result.chosen),
                _interval(result.accuracy.low, result.accuracy.high),
                f"{result.best.threshold:.2f} {_interval(*(result.best_interval or (None, None)))}",
                _share(result.best.accuracy),
            ]
        )
    lines += columns(rows, right=frozenset((1, 2, 3, 4, 5, 8)))
    for difference in differences:
        interval = difference["interval"]
        lines.append(
            f"{difference['similarity']} from {difference['threshold']:.2f} against {difference['against']} from "
            f"{difference['against_threshold']:.2f}: accuracy {difference['accuracy_difference']:+.3f} "
            f"{_interval(interval[0], interval[1], 3) if interval else difference['reason']}"
        )
    for title in ("lang", "kind"):
        groups = {name: getattr(result, f"by_{title}") for name, result in results.items()}
        labels = list(next(iter(groups.values())))
        if labels:
            rows = [[f"right by {title}", "pairs", *groups]]
            for label in labels:
                counts = [own[label] for own in groups.values()]
                rows.append([label, str(counts[0][1]), *(str(right) for right, _ in counts)])
            lines += columns(rows, right=frozenset(range(1, len(rows[0]))))
    if arguments.curve:
        for name, result in results.items():
            rows = [[name, "precision", "recall", "F1", "accuracy"]]
            rows += [[f"{point.threshold:.2f}", *_point_cells(point)] for point in result.curve]
            lines += columns(rows, right=frozenset(range(1, 5)))
    return lines


def _point_cells(point: Any) -> list[str]:
    return [_share(point.precision), _share(point.recall), _share(point.f1), _share(point.accuracy)]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _interval(low: float | None, high: float | None, decimals: int = 2) -> str:
    return "" if low is None or high is None else f"[{low:.{decimals}f}, {high:.{decimals}f}]"


# -- new-case


def _new_case(arguments: argparse.Namespace) -> int:
    from pytest_memeval.assets.registry import load_registry
    from pytest_memeval.cases.conversation import parse_time
    from pytest_memeval.cases.names import check_case_id
    from pytest_memeval.cases.skeleton import Masking, prepare, read_conversations, skeleton
    from pytest_memeval.documents.reader import read_text
    from pytest_memeval.options import SettingsError

    complaint = check_case_id(arguments.case_id)
    if complaint is not None:
        raise SettingsError(f"--case-id: {complaint}")
    try:
        given = arguments.start
        start = parse_time(given, UTC) if given else datetime.now(UTC).replace(second=0, microsecond=0)
    except ValueError as error:
        raise SettingsError(f"--start: {error}") from None
    if arguments.file == "-":
        path, text = Path("<stdin>"), sys.stdin.buffer.read().decode("utf-8", "replace")
    else:
        path = Path(arguments.file)
        text = read_text(path)
    mask = None if arguments.no_mask else Masking()
    conversations = [prepare(messages, start, mask) for messages in read_conversations(text, path)]
    output = skeleton(conversations, arguments.case_id, load_registry(configured("memeval_registry")).ids)
    # UTF-8 whatever the console: the output is a case file
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.flush()
        sys.stdout.buffer.write(output.encode("utf-8"))
        sys.stdout.flush()
    else:
        print(output, end="")
    if mask is not None and mask.found:
        say(mask.sentence(), sys.stderr)
    return 0
