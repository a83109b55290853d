"""Numbers, times, dates and spans of time in short texts, in Chinese and English, in one notation.

``3pm``, ``15:00`` and ``下午三点`` become the same quantity; so do ``1.2k`` and ``1,200``, ``2 万`` and ``20000``,
``两周`` and ``14 天``.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple


class Quantity(NamedTuple):
    """A number with its meaning; ``start`` and ``end`` are its place in the text.

    ``family`` is ``clock`` or ``half_clock`` (minutes of the day, of an unknown half of it), ``short`` or ``long``
    (minutes, below and from a day on), ``weekday``, ``year``, ``month``, ``day`` or ``number``, or what a number
    counts: ``text_unit``, ``money``, ``mass``.
    """

    family: str
    value: float
    start: int = -1
    end: int = -1


_DIGITS = {"零": 0, "〇": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_POWERS = {"十": 10, "百": 100, "千": 1000}
_SMALL_WORDS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"


def _numbered(words: str, start: int = 0) -> dict[str, int]:
    return {word: number for number, word in enumerate(words.split(), start=start)}


_ENGLISH = _numbered(_SMALL_WORDS) | {word: 10 * number for word, number in _numbered(_TENS, 2).items()}
_MAGNITUDES = {"hundred": 100, "thousand": 1000, "million": 1_000_000}
_SUFFIXES = {"k": 1e3, "千": 1e3, "w": 1e4, "万": 1e4, "百万": 1e6, "百": 1e2, "亿": 1e8, "m": 1e6}
_WEEKDAYS = {"一": 1, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "日": 7, "天": 7}
_ENGLISH_WEEKDAYS = {"mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6, "sun": 7}
_MONTHS = _numbered("jan feb mar apr may jun jul aug sep oct nov dec", 1)

_HOUR, _DAY = 60.0, 1440.0
_SPANS = {
    "秒": 1 / 60, "分": 1, "刻": 15, "小时": _HOUR, "钟头": _HOUR, "天": _DAY, "日": _DAY,
    "周": 7 * _DAY, "星期": 7 * _DAY, "礼拜": 7 * _DAY, "月": 30 * _DAY, "季度": 90 * _DAY, "年": 365 * _DAY,
    "s": 1 / 60, "m": 1, "h": _HOUR, "d": _DAY, "w": 7 * _DAY, "mo": 30 * _DAY, "y": 365 * _DAY,
}  # fmt: skip

# A Chinese numeral in running text is a number only where something is counted: 一起, 万一 and 三明治 are none.
_MEASURES = frozenset(
    "张块次回遍趟个只条位名本页行句段字集期篇顿杯碗瓶片粒颗斤克公米度元人口家台部辆双对套间层楼"
    "场门节号份件种倍折成级岁点周天小分年月日星季像轮步架圈盒包盘"
)
_NOT_AFTER_ONE = "个些种部家台辆对下起样般直定口名位点成共致旦边并律切条层门节"

# Bounded: what is longer is no number that somebody would write in words.
_CN = "[零〇一二两三四五六七八九十百千万]{1,12}"
_N = rf"(?:\d{{1,18}}(?:\.\d{{1,18}})?|{_CN})"
_WORDS = "|".join(sorted([*_ENGLISH, *_MAGNITUDES], key=len, reverse=True))
_PART = "早上|早晨|清晨|上午|中午|下午|傍晚|晚上|夜里|每晚|凌晨|今晚|半夜"
_DATED = "(?![一二三四五六日天末])"  # 周一 is a day, not a span
_UNIT = "|".join(
    (
        r"个?小时|个?钟头|分钟|分(?![之享别])|刻钟|秒钟?|天|个月|个?季度|年(?!级)",
        *(unit + _DATED for unit in ("周", "个?星期", "个?礼拜")),
    )
)
_EN_UNIT = r"hours?|hrs?|h|minutes?|mins?|min|days?|weeks?|months?|years?|yrs?"

_QUANTITY = re.compile(
    rf"""
      (?P<iso>(?P<iy>\d{{4}})(?:[-/.]|\s?年\s?)(?P<im>\d{{1,2}})(?:[-/.]|\s?月\s?)(?P<id>\d{{1,2}})(?!\d)\s?[日号]?)
    | (?P<cnclock>(?P<part>{_PART})?\s?(?P<ch>{_N})\s?[点時](?!\s?[一几儿心])(?:钟|整|(?P<cm>半|[一三]刻|{_N}\s?分?))?)
    | (?P<clock>(?P<cpart>{_PART})?\s?(?<![\d.:])(?P<hh>\d{{1,2}}):(?P<mm>\d{{2}})(?![\d:])(?:\s?(?P<hap>[ap])\.?m\b)?)
    | (?P<ampm>(?<![\d.])(?P<ah>\d{{1,2}})(?:[.:](?P<am>\d{{2}}))?\s?(?P<ap>[ap])\.?m\b\.?)
    | (?P<weekday>(?:(?<![一两二三四每])周|(?<=每)周|星期|礼拜)(?P<wd>[一二三四五六日天])(?![次回个顿场期篇趟遍节天])
        | \b(?P<ewd>mon|tue|wed|thu|fri|sat|sun)(?:day|sday|nesday|rsday|urday|s)?s?\b(?!-))
    | (?P<emonth>\b(?:(?P<ed1>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?)?
        (?P<em>january|february|march(?=\s\d)|april|may(?=\s\d)|june|july|august|september|october|november|december
           |jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b\.?(?:\s(?P<ed2>\d{{1,2}})(?:st|nd|rd|th)?(?!\d))?)
    | (?P<month>(?P<mo>{_N})\s?月份?)
    | (?P<year>(?P<yy>(?:19|20)\d\d)\s?年?(?!\d|[,.]\d))
    | (?P<day>(?P<dd>{_N})\s?(?:号(?!线|楼|院)|日(?!本|常)))
    | (?P<halfhour>半(?:个)?(?:小时|钟头)|half\san\shour)
    | (?P<halfday>半年)
    | (?P<every>(?:每(?:个)?(?P<eu>(?:周|星期)(?![一二三四五六日天末](?![次回个顿场期篇趟遍节]))|天|日|月|年|小时|季度)
        | \b(?P<ee>daily|weekly|monthly|yearly|annually|(?:every|each|a|per)\s(?P<eeu>day|week|month|year|hour)\b)))
    | (?P<span>(?P<sn>{_N}|\b(?:{_WORDS})\b)\s?-?(?P<su>{_UNIT}|(?:{_EN_UNIT})\b)(?P<half>半)?)
    | (?P<times>\b(?:once|twice|thrice)\b)
    | (?P<number>(?<![\w.])(?P<nn>\d{{1,3}}(?:,\d{{3}}){{1,5}}(?:\.\d{{1,18}})?|\d{{1,18}}(?:\.\d{{1,18}})?)
        \s?(?P<ns>[kw万千百亿](?![a-z])|百万)?)
    | (?P<tail>(?<=[^\W\d_])(?<![a-z])\d{{1,18}}(?:\.\d{{1,18}})?)
    | (?P<cn>{_CN})
    | (?P<english>\b(?:{_WORDS})\b(?:[\s-](?:{_WORDS})\b)*)
    """,
    re.VERBOSE,
)
#: Texts without any of these have no quantity.
_HINT = re.compile(
    rf"[0-9零〇一二两三四五六七八九十百千万半每]|星期|礼拜|周|\b(?:{_WORDS}|once|twice|half|daily|weekly|monthly|yearly|annually"
    r"|every|each|a|per|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|jan\w*|feb\w*|mar\w*|apr\w*|june?|july?|aug\w*"
    r"|sept?\w*|oct\w*|nov\w*|dec\w*|mon|tue|wed|thu|fri|sat|sun)\b"
)


def chinese_number(text: str) -> float | None:
    """The number a Chinese numeral stands for, digits one by one (二零二六) included; ``None`` for none (五一)."""
    if all(char in _DIGITS for char in text):
        if len(text) == 1:
            return float(_DIGITS[text])
        return float("".join(str(_DIGITS[char]) for char in text)) if len(text) >= 4 or "零" in text else None
    total, part, digit = 0.0, 0.0, 0.0
    previous = ""
    for char in text:
        if char in _DIGITS:
            if previous in _DIGITS and previous not in "零〇":
                return None
            digit = _DIGITS[char]
        elif char == "万":
            if not part and not digit:
                return None
            total, part, digit = (total + part + digit) * 1e4, 0.0, 0.0
        else:
            if not digit and char != "十":
                return None
            part += (digit or 1) * _POWERS[char]
            digit = 0.0
        previous = char
    return total + part + digit


def _value(text: str) -> float | None:
    if text in _ENGLISH:
        return float(_ENGLISH[text])
    if text[0].isdecimal():
        return float(text.replace(",", ""))
    return chinese_number(text)


def _english_number(text: str) -> float | None:
    total, part = 0.0, 0.0
    words = re.split(r"[\s-]", text)
    if words in (["one"], ["hundred"], ["thousand"], ["million"]):
        return None  # "one" is mostly a pronoun
    for word in words:
        if word in _ENGLISH:
            part += _ENGLISH[word]
        elif word == "hundred":
            part = (part or 1) * 100
        else:
            total, part = total + (part or 1) * _MAGNITUDES[word], 0.0
    return total + part


def _span(minutes: float) -> tuple[str, float]:
    return ("short" if minutes < _DAY else "long"), round(minutes, 3)


def _clock(hour: float, minute: float, part: str | None) -> tuple[str, float] | None:
    if hour > 24 or minute >= 60:
        return None
    if part in ("下午", "傍晚", "晚上", "夜里", "每晚", "今晚", "p") and hour < 12:
        hour += 12
    elif part in ("早上", "早晨", "清晨", "上午", "凌晨", "半夜", "a"):
        hour %= 12
    elif part == "中午":
        hour = hour + 12 if hour < 3 else hour
    elif part is None and hour <= 12:
        return "half_clock", (hour % 12) * 60 + minute
    return "clock", (hour % 24) * 60 + minute


def _minutes_of(text: str | None) -> float | None:
    if not text:
        return 0.0
    if text == "半":
        return 30.0
    if text.endswith("刻"):
        return 15.0 * _DIGITS[text[0]]
    return _value(text.rstrip("分").strip())


_EN_KEYS = {"h": "h", "m": "m", "d": "d", "w": "w", "y": "y", "s": "s"}


def _unit_minutes(unit: str) -> float:
    if unit.isascii():
        return _SPANS["mo" if unit.startswith("month") else _EN_KEYS[unit[0]]]
    unit = unit.removeprefix("个").removesuffix("钟") if unit != "钟头" else unit
    return _SPANS["钟头" if unit == "" or unit.endswith("钟头") else unit]


#: A memory has a handful of quantities; in a text with more the rest is not looked at.
MOST = 100


def find_quantities(text: str) -> list[Quantity]:
    """The quantities of a text that is NFKC-normalised and in lower case, in the order of their places, the first
    hundred."""
    if _HINT.search(text) is None:
        return []
    found: list[Quantity] = []
    at = 0
    while len(found) < MOST and (match := _QUANTITY.search(text, at)) is not None:
        read = [one for one in _read(match, text) if math.isfinite(one[1])]
        if not read:
            # not a quantity after all: try again behind its first character
            at = match.start() + 1
            continue
        at = match.end()
        if read[0][0] == "number":
            read = read + _counted(text, at)
        for family, value in read:
            if family == "short" and found and found[-1].family == "short" and found[-1].value >= _HOUR > value:
                before = found[-1]
                if text[before.end : match.start()].strip() in ("", "and"):  # 1 h 48 min is one span
                    found[-1] = Quantity("short", before.value + value, before.start, at)
                    continue
            found.append(Quantity(family, value, match.start(), at))
    return found


def _read(match: re.Match[str], text: str) -> list[tuple[str, float]]:
    """What a match stands for; nothing where it only looks like a quantity."""
    get = match.group
    kind = match.lastgroup or ""
    # lastgroup is the last group closed, which is the outermost one of the alternative
    if kind == "iso":
        return [("year", float(get("iy"))), ("month", float(get("im"))), ("day", float(get("id")))]
    if kind in ("cnclock", "clock", "ampm"):
        hour, minute, part = _clock_parts(match, kind)
        if match.group() == "一点":  # "a little"
            return []
        clock = None if hour is None or minute is None else _clock(hour, minute, part)
        return [] if clock is None else [clock]
    if kind == "weekday":
        return [("weekday", float(_WEEKDAYS[get("wd")] if get("wd") else _ENGLISH_WEEKDAYS[get("ewd")]))]
    if kind == "emonth":
        day = get("ed1") or get("ed2")
        return [("month", float(_MONTHS[get("em")[:3]])), *([("day", float(day))] if day else [])]
    if kind == "month":
        value = _value(get("mo"))
        return [] if value is None or not 1 <= value <= 12 else [("month", value)]
    if kind == "year":
        return [("year", float(get("yy"))) if match.group().endswith("年") else ("number", float(get("yy")))]
    if kind == "day":
        value = _value(get("dd"))
        return [] if value is None or not 1 <= value <= 31 else [("day", value)]
    if kind == "halfhour":
        return [("short", 30.0)]
    if kind == "halfday":
        return [("long", 180 * _DAY)]
    if kind == "every":
        unit = get("eu") or get("eeu") or {"d": "day", "w": "week", "m": "month"}.get(get("ee")[0], "year")
        return [_span(_unit_minutes(unit))]
    if kind == "span":
        count = _value(get("sn"))
        if count is None or (get("sn") in ("十", "一") and get("su") == "分"):  # 十分 is "very"
            return []
        return [_span((count + (0.5 if get("half") else 0)) * _unit_minutes(get("su")))]
    if kind == "times":
        return [("number", {"once": 1.0, "twice": 2.0, "thrice": 3.0}[match.group()])]
    if kind == "number":
        return [("number", float(get("nn").replace(",", "")) * _SUFFIXES.get(get("ns") or "", 1.0))]
    if kind == "tail":
        return [("number", float(match.group()))]
    if kind == "english":
        value = _english_number(match.group())
        return [] if value is None else [("number", value)]
    return _chinese(match.group(), text[match.end() : match.end() + 1])


def _clock_parts(match: re.Match[str], kind: str) -> tuple[float | None, float | None, str | None]:
    get = match.group
    if kind == "cnclock":
        return _value(get("ch")), _minutes_of(get("cm")), get("part")
    if kind == "clock":
        return float(get("hh")), float(get("mm")), get("hap") or get("cpart")
    return float(get("ah")), float(get("am") or 0), get("ap")


def _chinese(numeral: str, following: str) -> list[tuple[str, float]]:
    value = chinese_number(numeral)
    if value is None or numeral in ("万", "千万", "百", "千", "万一") or (following == "月" and value > 12):
        return []
    if len(numeral) == 1:
        if not following or following not in _MEASURES:
            return []
        if numeral == "一" and following in _NOT_AFTER_ONE:
            return []
    return [("number", value)]


def same_quantity(a: Quantity, b: Quantity) -> bool:
    """Whether two quantities may mean the same: a clock time matches one without its half of the day, and ``9.45`` or a
    span of ``1 h 48`` matches what is written ``9:45`` or ``1:48``."""
    if a.value == b.value and (a.family == b.family or {a.family, b.family} <= {"clock", "half_clock", "short"}):
        return True
    if a.value == b.value and {a.family, b.family} == {"number", "year"}:
        return True
    if {a.family, b.family} == {"clock", "half_clock"}:
        return a.value % 720 == b.value % 720
    for one, other in ((a, b), (b, a)):
        if one.family == "number" and other.family in ("clock", "half_clock"):
            minutes = other.value % 720
            hour = int(one.value)
            if round(hour % 12 * 60 + (one.value - hour) * 100) == minutes and hour <= 24:
                return True
    return False


#: What is counted, where the unit alone can make the difference: 三行 is not 三页.
_COUNTED: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "text_unit",
        re.compile(
            r"\s?(?:(行|lines?\b)|(页|pages?\b)|(段|paragraphs?\b)|(句|sentences?\b)|(个?字|words?\b)|(章|chapters?\b))"
        ),
    ),
    (
        "money",
        re.compile(
            r"\s?(?:(元|块钱|rmb\b|yuan\b)|(美元|美金|dollars?\b|usd\b)|(欧元|euros?\b|eur\b)|(日元|yen\b)|(英镑|pounds?\b))"
        ),
    ),
    ("mass", re.compile(r"\s?(?:(mg\b|毫克)|(g\b|克)|(kg\b|公斤|千克)|(斤)|(吨|tons?\b))")),
)


def _counted(text: str, at: int) -> list[tuple[str, float]]:
    """The unit that a number is followed by, as a quantity of its own."""
    for family, pattern in _COUNTED:
        match = pattern.match(text, at)
        if match is not None:
            return [(family, float(match.lastindex or 0))]
    return []


#: Families that answer the same question: two different values contradict each other.
FAMILIES = {"clock": "clock", "half_clock": "clock"}


def contradict(a: list[Quantity], b: list[Quantity]) -> bool:
    """Whether each text names a quantity of one family that the other lacks. A quantity that only one of them gives is
    a detail, not a contradiction."""
    left_b = list(b)
    left_a = []
    for quantity in a:
        for position, other in enumerate(left_b):
            if same_quantity(quantity, other):
                del left_b[position]
                break
        else:
            left_a.append(quantity)
    if not left_a or not left_b:
        return False
    # said twice in one text is not a different value
    left_a = [one for one in left_a if not any(same_quantity(one, other) for other in b)]
    left_b = [one for one in left_b if not any(same_quantity(one, other) for other in a)]
    families = {FAMILIES.get(one.family, one.family) for one in left_a}
    return any(FAMILIES.get(one.family, one.family) in families for one in left_b)
