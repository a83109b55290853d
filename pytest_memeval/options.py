"""Every command-line option and its ini twin, in one table; cheap to import, since every pytest start does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

#: Files that become tests unless the ini ``memeval_files`` says otherwise.
DEFAULT_FILES: tuple[str, ...] = (
    *("cases/**/*.yaml", "cases/**/*.yml"),
    *("*.memeval.yaml", "*.memeval.yml", "*.memeval.jsonl"),
)


class SettingsError(ValueError):
    """An option or ini value that cannot be used; the text names it and the nearest valid one."""


@dataclass(frozen=True)
class Option:
    """An option ``--memeval-<name>`` and its ini twin ``memeval_<name>`` (dashes as underscores).

    ``flag`` or ``ini`` is false for one that has only the other form. ``kind``: how the text is read.
    ``choices`` are the words accepted, or empty for free text. ``relative`` marks a path: on the command line it is
    relative to the current folder, in the ini to rootdir.
    """

    name: str
    help: str
    default: Any = None
    kind: Literal["text", "int", "float", "flag", "list"] = "text"
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    flag: bool = True
    ini: bool = True
    relative: bool = False
    ini_default: Any = None

    @property
    def option(self) -> str:
        return f"--memeval-{self.name}"

    @property
    def dest(self) -> str:
        return "memeval_" + self.name.replace("-", "_")


OPTIONS: tuple[Option, ...] = (
    Option(
        "prompt-version",
        "prompt version of every stage that has it (v002), or per stage (l1=v002,l2=@working); several are compared",
        kind="list",
        metavar="SPEC",
    ),
    Option(
        "variant",
        "a set-up that is compared: NAME=engine:...,prompts:...,model:...; repeatable, the last one's gates count",
        kind="list",
        metavar="VARIANT",
    ),
    Option("stages", "stages to measure: all, or some of l1,l15,l2,template,inject,search", "all", metavar="LIST"),
    Option(
        "stage-input",
        "what a stage is given: the output of the stage before, or the labelled memories",
        "chained",
        choices=("chained", "truth"),
    ),
    Option(
        "metric", "metric of your own, as module:function, or all of a module; repeatable", kind="list", metavar="NAME"
    ),
    Option(
        "engine",
        "memory system under test: reference, an adapter, or module:attribute",
        "reference",
        metavar="NAME",
    ),
    Option("predictions", "score the outputs in this JSONL file; no engine runs", metavar="FILE", relative=True),
    Option("save-predictions", "write every case's stage outputs to this JSONL file", metavar="FILE", relative=True),
    Option("evaluator", "evaluator of RAG samples, as module:attribute; repeatable", kind="list", metavar="NAME"),
    Option("rag-pipeline", "system that answers RAG samples, as module:attribute", metavar="NAME"),
    Option("contexts", "play back the retrieved contexts in this JSONL file", metavar="FILE", relative=True),
    Option("save-contexts", "write every RAG sample's contexts to this JSONL file", metavar="FILE", relative=True),
    Option("llm", "chat model: recorded, embedded, openai, or module:attribute", metavar="NAME"),
    Option("recorded", "JSONL file of recorded answers, for --memeval-llm recorded", metavar="FILE", relative=True),
    Option("model", "name of the model on the server", metavar="NAME"),
    Option("base-url", "address of an OpenAI-compatible server", metavar="URL"),
    Option("endpoint", "name of the server in cache and reports (default: its address)", metavar="NAME"),
    Option("judge", "judge of answers of your own, as module:attribute, in the place of a model", metavar="NAME"),
    Option("judge-model", "name of the model that judges answers", metavar="NAME"),
    Option("judge-base-url", "address of the judge's server (default: the model's)", metavar="URL"),
    Option("judge-endpoint", "name of the judge's server in cache and reports (default: its address)", metavar="NAME"),
    Option(
        "judge-controls",
        "known-right and known-wrong answers, N of each, that the judge of a run with questions is checked with",
        0,
        kind="int",
        metavar="N",
    ),
    Option(
        "cache",
        "answers already given: use and add, use only, ask anew, write requests to a file, or none",
        "auto",
        choices=("auto", "record", "replay", "refresh", "batch", "off"),
    ),
    Option("max-tokens", "cap of an answer's length in tokens", 4096, kind="int", metavar="N"),
    Option("request-timeout", "seconds one request to a server may take", 180.0, kind="float", metavar="SECONDS"),
    Option("max-attempts", "attempts at one call before it is given up", 4, kind="int", metavar="N"),
    Option("rpm", "requests a minute, over all workers", kind="float", metavar="N"),
    Option("tpm", "tokens a minute, over all workers", kind="float", metavar="N"),
    Option("prices", "YAML file of prices per model that adds to the shipped ones", metavar="FILE", relative=True),
    Option("max-cost", "US dollars after which no new case is started", kind="float", metavar="USD"),
    Option("plan", "say how many calls, tokens and dollars a run needs, call nothing, and end", False, kind="flag"),
    Option(
        "memory",
        "memory that is asked questions: bm25, vector, recent, full-context, null, engine, module:attribute;"
        " auto is the engine under test where it can answer, else bm25",
        "auto",
        metavar="NAME",
    ),
    Option("retrieval-k", "messages that bm25, vector and recent give the answerer", 10, kind="int", metavar="N"),
    Option(
        "answerer",
        "who answers questions: the best sentence found (offline), or the chat model",
        "extractive",
        choices=("extractive", "chat"),
    ),
    Option("arms", "answer questions also with no-memory, full-context, to read scores as lifts", metavar="LIST"),
    Option(
        "adversarial-in-headline", "let adversarial questions count in f1, exact_match, judge_score", False, kind="flag"
    ),
    Option(
        "embedder",
        "embeddings for search: lexical, openai, sentence-transformers, or module:attribute",
        "lexical",
        metavar="NAME",
    ),
    Option("embedding-model", "name of the embedding model", metavar="NAME"),
    Option("embedding-base-url", "address of the embeddings server (default: the model's)", metavar="URL"),
    Option("embedding-endpoint", "name of the embeddings server in cache (default: its address)", metavar="NAME"),
    Option(
        "search-params",
        "parameters of search, such as top_k=20,rrf_k=60,bm25_weight=0.5,bm25_k1=1.2,bm25_b=0.75",
        "",
        metavar="LIST",
    ),
    Option(
        "matcher",
        "how memories are matched: indel, levenshtein, difflib, optimal, hybrid, or module:attribute",
        "indel",
        metavar="NAME",
    ),
    Option("match-threshold", "similarity from which two memories match", 0.5, kind="float", metavar="X"),
    Option("unknown-label", "a label unknown to the registry: drop it or count an fp", "drop", choices=("drop", "fp")),
    Option("timeout", "seconds a case may take that names no timeout of its own", kind="float", metavar="SECONDS"),
    Option("gate", 'a gate such as "P0 l1.dimension_micro_f1 >= 0.75"; repeatable', kind="list", metavar="GATE"),
    Option(
        "baseline",
        "report that this run is compared with: a report.json, a run folder, or latest",
        metavar="REPORT",
        relative=True,
    ),
    Option("no-history", "leave no row of this run in the history", False, kind="flag"),
    Option(
        "trials", "times that every case is measured; counts are averaged within a case", 1, kind="int", metavar="K"
    ),
    Option("no-gate", "evaluate no gates", False, kind="flag"),
    Option("concurrency", "cases in flight at once in each process; 1 prepares none ahead", 8, kind="int", metavar="N"),
    Option("max-error-rate", "share of errored cases up to which gates' values stand", 0.0, kind="float", metavar="X"),
    Option("output", "folder of this run's reports", metavar="DIR", relative=True),
    Option(
        "resume",
        "take finished cases from this earlier run (folder, run id, journal, or latest) and run the others",
        metavar="RUN",
    ),
    Option("shard", "only the part of the cases that falls to this machine: 2/5 is the second of five", metavar="K/N"),
    Option("keep-db", "keep every case's databases under the output folder", False, kind="flag"),
    Option("progress", "seconds between two lines that say how far the run is", 30.0, kind="float", metavar="SECONDS"),
    Option("lang", "language of summary and reports", "en", choices=("en", "zh")),
    Option("report-text", "texts in reports: full, hash or none", "full", choices=("full", "hash", "none")),
    Option("limit", "only the first N cases of every case set", kind="int", metavar="N"),
    Option("sample", "only a random sample of N cases of every case set", kind="int", metavar="N"),
    Option("seed", "seed of --memeval-sample and of --memeval-stop-when-decided", 0, kind="int", metavar="S"),
    Option(
        "stop-when-decided",
        "run cases in random order, and none of a set any more once a part shows what its P0 gates say of the whole",
        False,
        kind="flag",
    ),
    Option(
        "stop-most-wrong",
        "wrong predictions that no single case is taken to exceed, for the early verdict on F1 and precision",
        20,
        kind="int",
        metavar="N",
    ),
    Option("on-invalid-case", "a case with an invalid label: error or skip", "error", choices=("error", "skip")),
    Option("cache-dir", "folder of caches, else the user's cache folder", metavar="DIR", relative=True),
    Option("registry", "registry file with the project's own dimensions", metavar="FILE", relative=True),
    Option("templates", "folder or file with the project's own templates", metavar="PATH", relative=True),
    Option("prompts", "folder with the project's own prompts", metavar="DIR", relative=True),
    Option(
        "files", "patterns of the files that become tests", kind="list", flag=False, ini_default=list(DEFAULT_FILES)
    ),
    Option("expect", "thresholds that every case has by default", kind="list", flag=False),
)
