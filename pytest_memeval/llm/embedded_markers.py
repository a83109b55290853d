"""Discourse markers of Chinese and English that the embedded model goes by.

They tell statements from questions, requests and suppositions, standing orders from facts, the passing from the
lasting. None of them belongs to a topic, so that they say nothing of any dimension.
"""

from __future__ import annotations

import re


def _anywhere(chinese: str, english: str) -> re.Pattern[str]:
    return re.compile(rf"{chinese}|\b(?:{english})\b", re.IGNORECASE)


def _at_start(chinese: str, english: str) -> re.Pattern[str]:
    return re.compile(rf"^(?:{chinese}|(?:{english})\b)", re.IGNORECASE)


_DAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_ORDER = "always|never|don't|do not|keep|use|stop|avoid"
#: 请 and 别 where they ask for something (not 请假, 别人).
_PLEASE = "请(?![假教客求])|不要|别(?!人|的)|务必|尽量"

NOT_A_USER = _at_start(
    "助手|助理|系统|机器人",
    "assistant|system|tool|function|ai|bot|gpt|model|developer",
)
FIRST_PERSON = _anywhere("我|咱|俺", "i|i'm|i've|i'd|i'll|my|me|mine|we|we're|we've|our|us")
OTHER_SUBJECT = _at_start(
    "你|您|它|这|那|他们说|听说|据说|别人|有人",
    "you|your|it|it's|this|that|they say|people|someone",
)
HYPOTHESIS = _at_start(
    "如果|要是|假如|假设|万一|倘若|比如|例如|开个?玩笑",
    "if|suppose|imagine|let's say|for example|just kidding",
)
REQUEST = _at_start(
    "请?帮|请?给我|请?推荐|请?翻译|请?写|麻烦|能不能|可以帮|我想(?:问|请教|知道)|想请教|想问",
    "(?:please |could you |can you |would you )?(?:help|recommend|suggest|translate|summari[sz]e|tell me|show me|"
    "give me|write me|write a|find me|explain|draft|compare|list)|could you|can you|would you|how about|let me know",
)
#: A wish that holds from now on.
STANDING = re.compile(
    "以后|今后|从现在(?:起|开始)|从今|往后|每次|一律|始终|记住|"
    rf"(?:请|不要|别|务必)(?:再|用|总|一直|先|给)|^(?:{_PLEASE})|"
    r"\b(?:from now on|in (?:the )?future|going forward|remember to|make sure)\b|"
    rf"^(?:please )?(?:{_ORDER})\b|\bplease (?:{_ORDER})\b",
    re.IGNORECASE,
)
#: Said to the assistant.
ADDRESSED = re.compile(
    rf"你|您|一律|{_PLEASE}|\b(?:you|your|please)\b|^(?:{_ORDER}|from now on)\b",
    re.IGNORECASE,
)
#: Bound to a time that will have gone by.
PASSING = _anywhere(
    "最近|近期|目前|现在|当前|正在|这(?:几|两)?[天周]|这个?[周月]|本[周月]|这阵子|这段时间|刚刚?|"
    "今[天晚早]|明[天早晚年]|后天|下个?[周月]|打算|计划|准备|快要|即将|月底|年底|截止|"
    r"(?:周|星期|礼拜)[一二三四五六日天末]?之?前|\d+[月号日]之?前",
    "currently|now|nowadays|at the moment|lately|recently|these days|this (?:week|month|year|quarter)|"
    "today|tonight|tomorrow|next (?:week|month|year|quarter)|going to|gonna|plan(?:ning)? to|about to|"
    rf"deadline|due|until|by (?:the end|next|{_DAYS})|(?:need|have) to|(?:i'm|i am|we're|we are) \w+ing",
)
#: Over and done.
EVENT = _anywhere(
    "昨[天晚]|前天|上个?[周月]|去年|前几天|刚刚?|已经|了$|过了",
    "yesterday|last (?:week|month|year|night)|ago|just|already|earlier",
)
#: The start of a correction, taken off the corrected statement.
CORRECTION = re.compile(
    "^(?:不对|说错了|我说错了|更正(?:一下)?|纠正(?:一下)?|搞错了|记错了|应该是|"
    r"no wait|correction|i meant|scratch that|i misspoke)[，,：:。\s]*",
    re.IGNORECASE,
)
#: What was so is so no more.
CHANGE = _anywhere(
    "现在|如今|目前|改[为成用到]?|换[成到了]?|搬[到去了]|转[到为]|不再|已经|推迟|提前|延期|取消|完成|升[为到职]|变成|更新",
    "now|no longer|anymore|any more|instead|switched|switching|changed|changing|moved|moving|became|postponed|"
    "rescheduled|cancel+ed|finished|completed|done|promoted|upgraded|quit|stopped|gave up|used to|replaced|new",
)
STRONG = _anywhere(
    "必须|绝对|非常|特别|一定|最重要|严重|务必|千万",
    "must|never|always|very|really|important|critical|severe|urgent|absolutely",
)
WEAK = _anywhere(
    "可能|也许|大概|有点|有时|偶尔",
    "maybe|perhaps|probably|sometimes|a bit|kind of|sort of|might",
)
NEGATION = _anywhere(
    "不|没|别|未|无|戒|停止|取消",
    "not|no|never|don't|doesn't|didn't|isn't|aren't|wasn't|won't|can't|cannot|without|none|stopped|quit",
)
#: Filler before a statement.
LEADING = re.compile(
    "^(?:(?:嗯+|啊+|哦+|噢|哈+|对了|其实|另外|还有|而且|并且|不过|但是|但|然后|所以|因为|那个|话说|顺便说一下|"
    r"说起来|你好|您好|嗨|哈喽|好的|谢谢|不好意思|抱歉)[，,、：:\s]*|"
    "(?:well|oh|ok|okay|hi|hello|hey|so|and|but|also|by the way|btw|anyway|actually|thanks|thank you|yes|yeah|sure|"
    r"sorry|wait|because)\b[,:\s]*)+",
    re.IGNORECASE,
)
#: A question even where the mark is left out.
QUESTION = re.compile(
    "^(?:what|how|why|which|who|where|can you|could you|do you|would you|is there|are there|any)\\b|"
    "[吗呢]$|^(?:有什么|有没有|怎么|为什么|如何|哪[个些里]|能不能|可不可以|是不是)",
    re.IGNORECASE,
)

STOP_WORDS = frozenset(
    [
        *("a", "an", "the", "and", "or", "but", "if", "so", "of", "to", "in", "on", "at", "by", "for", "with", "from"),
        *("as", "is", "are", "was", "were", "be", "been", "being", "am", "i", "me", "my", "mine", "we", "us", "our"),
        *("you", "your", "he", "him", "his", "she", "her", "it", "its", "they", "them", "their", "this", "that"),
        *("these", "those", "there", "here", "what", "which", "who", "whom", "how", "when", "where", "why", "do"),
        *("does", "did", "done", "have", "has", "had", "having", "will", "would", "can", "could", "shall", "may"),
        *("might", "not", "no", "nor", "than", "then", "too", "very", "just", "also", "about", "into", "over"),
        *("under", "out", "up", "down", "off", "again", "more", "most", "some", "any", "each", "other", "such"),
        *("own", "same", "only", "both", "all", "user", "users"),
    ]
)
STOP_CHARACTERS = frozenset("的了和与或在是有我你他她它们这那个些及等也都就还而被把为对于其之以用户")
