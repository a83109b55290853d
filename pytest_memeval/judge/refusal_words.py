"""The words of refusals, in English and Chinese: what :mod:`refusal` looks for in a clause."""

from __future__ import annotations

import re

#: Texts that, whole, are refusals.
WHOLE = frozenset(
    (
        "n/a", "na", "none", "null", "nil", "unanswerable", "unknown", "unspecified", "undisclosed", "unclear", "-",
        "无", "未知", "不知道", "不清楚", "不确定", "不详", "没说", "没提", "没提到", "未提及", "未提供", "未说明",
        "不明", "暂无", "无解", "没有答案", "无答案", "无可奉告",
    )
)  # fmt: skip

_SOURCE = (
    r"(?:conversations?|dialogues?|chats?|chat (?:history|logs?)|transcripts?|text|context|sessions?|messages?|notes?"
    r"|records?|memory|memories|information|documents?|history|excerpts?|passages?|data|logs?|snippets?|speakers?)"
)
_NOT = r"(?:not|never|n't)"
_ADVERB = r"(?:\w+ly |ever |even |at all |anywhere )*"
#: What there is none of where nothing was told.
_TOLD = (
    r"(?:information|info|mention|details?|records?|reference|evidence|indications?|data|answers?|memory|memories"
    r"|knowledge|discussion|context|clues?|hints?|signs?|trace|notes?"
    r"|statement|way to|way of|telling|basis|such|specific|explicit)"
)
FILLER_EN = (
    r"(?:(?:(?:i'?m |i am )?(?:very |so |really )?sorry|unfortunately|apologies|hmm+|um|well|honestly|actually"
    r"|however"
    r"|but|and|so|as|because|since|while|although|though|even though|yet|that|which|to be honest|afraid|i'?m afraid"
    r"|i (?:think|believe)|(?:as far as|from what) i (?:can )?(?:see|tell|know)|overall|also|still)[, ]*)*"
)
#: Each is searched from the clause's beginning, behind fillers.
ANCHORED_EN = (
    r"no[t]? (?:idea|clue|mention|information|info|details?|records?|reference|evidence|indication|data|answer"
    r"|memory|memories|knowledge|such(?! luck)|relevant|specific|explicit|further"
    rf"|(?:enough|sufficient)(?= (?:\w+ ){{0,2}}?{_TOLD}))\b(?! desk)"
    r"(?! (?:was|were|is|are|got|gets) (?:lost|leaked|stolen|deleted|damaged|exchanged|needed|required|sold))",
    r"it (?:isn't|wasn't) (?:\w+ly )?(?:clear|known|certain)\b"
    r"(?= (?:from|what|which|when|where|who|why|how|whether|if)\b|$)",
    r"(?:i|we) (?:don't|do not) have (?:that|this|the|any|enough) (?:\w+ ){0,2}?(?:information|info|details?|data"
    r"|records?|answer)\b",
    r"(?:i|we) (?:don't|do not) (?:think|believe|recall) (?:that )?(?:it|this|that|we|you|they|anyone|anybody|she|he)\b"
    r".*\b(?:discuss|mention|said|say|specif|state|talk|cover|told|brought up|come up|came up)",
    r"(?:unable|not able) to (?:answer|determine|infer|verify|(?:say|tell)$)",
    r"i(?:'m| am) not aware\b",
    rf"(?:it(?:'s| is| was| has been)? )?{_NOT} {_ADVERB}(?:been )?(?:mentioned|specified|stated|answerable"
    rf"|provided|given"
    r"|known|available|disclosed|discussed|recorded|possible to|clear|sure|certain|included|covered)\b"
    r"(?! (?:for|to (?:the|his|her|their|my)))",
    r"(?:there|that)(?:'s| is| are| was| were|) (?:no|not any|not enough|n't any|n't enough|insufficient)"
    rf" (?:\w+ ){{0,3}}?{_TOLD}\b",
    r"(?:there|that)(?:'s| is| are| was| were|) nothing (?:about|in|on|of|that|to|here|regarding|mentioned|said)\b",
    r"there (?:isn't|aren't|wasn't|weren't) (?:any|enough|sufficient|a mention)\b",
    r"insufficient (?:information|data|context|evidence|details?)",
    r"(?:it(?:'s| is| remains| was)? )?(?:unclear|unknown|unspecified|impossible to|uncertain"
    r"|undisclosed)\b(?= (?:what|when|where"
    r"|who|which|how|why|whether|if|to|from|based|in)\b|$)",
    r"i (?:really |simply |just |honestly )?(?:do not|don't|did not|didn't|cannot|can't|can not|could not|couldn't"
    r"|am unable"
    r" to|'m unable to|was unable to|am not able to|will not be able to|won't be able to|would not|wouldn't)"
    r" (?:actually |currently |seem to |really )?(?:know|recall|remember|find|see|tell|determine|answer|locate|say|be"
    r" able|have|provide|identify|confirm|infer|be sure|know)\b",
    r"i(?:'m| am) (?:unable|not able|not sure|uncertain|unsure)\b",
    r"i(?:'ve| have)? (?:no|not any|never|zero|nothing)\b",
    r"i(?:'d| would)? need (?:more|further|additional)\b",
    r"my (?:memory|memories|notes|records) (?:holds?|contains?|has|have|does|do|includes?) (?:no|nothing|not)",
    r"(?:you|we|you guys|both of you)(?:'ve| have|) (?:never|not|n't|haven't|didn't|did not|don't) (?:actually "
    r"|ever |really )*"
    r"(?:(?:told|tell|shown|given|informed) (?:me|us)|discuss|mention|talk|share|specif|said|say\b|brought|bring"
    r"|cover|state)",
    rf"(?:nothing|none|nowhere) (?:in|of|about|from) (?:the |our |your |my |these |those |any )?(?:\w+ )?{_SOURCE}",
    rf"neither (?:of the )?(?:{_SOURCE}|person|of them|one|\w+ nor \w+) (?:say|mention|discuss|talk|specif|state"
    rf"|ever)",
    rf"(?:none|neither|nobody|no one)(?: of (?:them|these|those|(?:the |your |our )?(?:\w+ )?{_SOURCE})| speakers?"
    r"| person)? (?:ever |actually )?(?:says?|said|mentions?|mentioned|states?|stated|tells?|gives?|discuss(?:es)?"
    r"|specif(?:y|ies)|talks?|records?|shows?)(?= (?:what|when|where|which|who|how|why|whether|if|anything|about)\b|$)",
    r"(?:can't|cannot|can not|couldn't|could not|hard to|no way to) (?:say|tell|know|answer)"
    r"(?: for (?:sure|certain))?(?= (?:what|when|where|which|who|how|why|whether|if|from)\b|$)",
    r"(?:i only|i can only|all i) (?:see|know|find|have)\b.*\bnothing\b",
    r"nothing (?:is |was )?(?:said|mentioned|known|recorded|stated)",
    r"(?:did not|didn't) (?:mention|specify|state)\b(?!.* to (?:him|her|them|his|their|the|anyone)\b)",
)
#: Each is searched anywhere in a clause that does not report what somebody said.
ANYWHERE_EN = (
    rf"\b{_SOURCE}(?: \w+){{0,4}}? (?:does not|doesn't|do not|don't|never|did not|didn't|cannot|can't|has not"
    rf"|hasn't|have not"
    r"|haven't) (?:\w+ )?(?:mention|say|state|specif|contain|include|discuss|tell|indicate|provide|reveal|give|name"
    r"|describe"
    r"|cover|show|explain|answer|reference|address|talk|list|detail)",
    rf"\b{_SOURCE}(?: \w+){{0,3}}? (?:contains?|makes?|has|have|holds?|includes?|gives?|provides?|offers?"
    rf"|says?) (?:no|nothing)\b",
    rf"\b(?:is|are|was|were|has been|have been|'s|isn|aren|wasn|weren|hasn been|haven been)(?:'t|n't)? ?{_NOT}? ?"
    rf"(?:{_NOT} )?{_ADVERB}(?:mentioned|specified|stated|answerable|provided|given|available|disclosed|discussed"
    rf"|recorded"
    r"|included|covered|explained|named|revealed|described)\b",
    r"\b(?:cannot|can't|can not|could not|couldn't) be (?:\w+ )?(?:answered|determined|inferred|known|found"
    r"|established"
    r"|concluded|derived)",
    r"\b(?:has|have) no answer\b",
    r"\b(?:never|does not|doesn't|do not|don't|has not|hasn't|have not|haven't|has never"
    r"|have never) (?:\w+ly )?(?:says?|said"
    r"|mentions?|mentioned|specif(?:y|ies|ied)|states?|stated|reveals?|revealed|discloses?|disclosed|tells?|gives?)"
    r"(?= (?:which|what|when|where|why|how|who|whether|if|one|it|that|this|anything|any|the|her|his|their|an?)\b|$)"
    r"(?!.* to (?:me|him|her|them|his|her|their|my|the|anyone|anybody|nobody)\b)",
    r"\b(?:did not|didn't|never) (?:\w+ly )?(?:mention|mentioned|specify|specified|state|stated|disclose|disclosed"
    r"|reveal"
    r"|revealed)\b(?!.* to (?:me|him|her|them|his|their|my|the|anyone|anybody|nobody)\b)",
    r"\b(?:did not|didn't|never) (?:\w+ly )?sa(?:y|id)$",
    r"\b(?:is|are|was|were|) ?(?:missing from|absent from|left out of|omitted from) (?:the|our|your|my|these|those)"
    rf" (?:\w+ )?{_SOURCE}\b",
    r"\b(?:never|has not|hasn't|have not|haven't) shared(?= (?:that|this|it|any|which|what|where|when)\b|$)",
    r"\b(?:remains?|is|are|was|were) (?:unknown|unspecified|unclear|undisclosed|unstated)$",
    rf"\b{_SOURCE}(?: \w+){{0,2}}? (?:is|are|was|were) silent (?:on|about)\b",
    r"\b(?:never|not) (?:been )?(?:brought|come|came|comes) up\b",
    r"n't (?:been )?(?:brought|come) up(?= (?:in|during|at (?:any|all)|anywhere|once|between)\b|$)",
    r"\band (?:there(?:'s| is| was)|i (?:see|saw|find|found)) (?:nothing|no \w+) (?:about|on|regarding|that says)\b",
    r"\b(?:false|wrong|mistaken|incorrect) premise\b",
    r"\bpremise (?:of \w+ question )?(?:is|seems|was) (?:false|wrong|mistaken|incorrect|not (?:true|right|correct))\b",
    r"\bsays? nothing (?:about|of|on)\b",
    rf"\b(?:is|are|was|were)(?:n't| not) (?:\w+ ){{0,2}}?(?:in|part of|among|found in) (?:the|any|our|your"
    rf"|my) (?:\w+ )?{_SOURCE}\b",
    r"\b(?:information|answers?|details?) (?:was |were |is |are )?not found\b",
)
DENIAL = re.compile(r"\b(?:premise|not|never|no|nothing|cannot|missing|absent|left out|omitted|silent|un\w+)\b|n't\b")
REPORTED_EN = re.compile(
    r"^(?:\w+ ){0,3}?(?:said|told(?! (?:me|us)\b)|asked|complained|claimed|thought|decided|explained|replied"
    r"|(?<!be )answered|felt|wrote|admitted)\b"
)
CONTRAST_EN = re.compile(
    r"^(?:and |so |but )?(?:later|eventually|finally|afterwards|in the end)\b"
    r"|^(?:and |so )?(?:but|however|yet|though|although|nevertheless|nonetheless|still|instead)\b"
)
CONCESSION_EN = re.compile(r"^(?:while|although|though|even though|even if|whereas|despite)\b")
GUESS_EN = re.compile(
    r"^(?:so |then |and )?(?:the answer (?:is|was)|my (?:best )?guess|i(?:'d| would)? (?:guess|assume)"
    r"|(?:it|that|this)(?:'s| is| was| would be| might be| could be) (?:most )?(?:probably|likely)|probably"
    r"|(?:most )?likely)"
)
#: A contrast that gives no answer: an offer, or what is talked about instead.
IDLE_EN = re.compile(
    r"\b(?:only|just|merely)\b.*\b(?:mention|talk|discuss|say|sa(?:y|id)|refer)"
    r"|^but (?:not|no|nothing|never)\b|^(?:but|however)[, ]+(?:if|feel free|please|let me|i(?:'d| would| can| could"
    r"|'ll| will) (?:be happy|help|check|try|look)"
    r"|you (?:can|could|may|might|should))\b"
)

_SOURCE_ZH = (
    r"(?:对话|聊天|记录|上下文|文中|原文|上文|文本|材料|资料|信息|内容|消息|记忆|历史|片段|文档|笔记|会话|题目"
    r"|谈话|语境)"
)
_NONE_ZH = r"(?:并没有|从来没有|从没有|都没有|还没有|没有|并未|从未|均未|未曾|尚未|未|都没|从没|还没|并没|没)"
_TELL_ZH = (
    r"(?:明确|具体|直接|详细)?(?:提到|提及|提过|提供|说明|说出|说过|说起|说|谈到|谈过|谈及|谈|涉及|写明|写|出现"
    r"|讲到|讲过|记载"
    r"|交代|包含|给出|透露|披露|讨论|显示|指出|记录|聊过|聊到|聊|标明|注明|描述|列出|告知)"
)
FILLER_ZH = (
    r"(?:(?:很|非常|真的)?(?:抱歉|对不起|不好意思|遗憾)|目前|暂时|我|我们|这里|我这里|我这边|这边|这件事"
    r"|这方面的?(?:情况|内容)?|对此|这个|该|此|这|问题|那个|其"
    r"|实在|确实|还|也|都|但是|但|不过|可是|可|然而|所以|因此|因为|由于|虽然|尽管|而|且|并|就|现在|具体|我也|恐怕"
    r"|之前|个|也许|看来"
    r"|已有|所|根据[^,]{0,12}|从[^,]{0,10}?(?:来看|看|里|中|内容)|就[^,]{0,10}?而言|关于[^,]{0,14})*"
)
ANCHORED_ZH = (
    r"(?:不知道|不清楚|不确定|不记得|不了解|不得而知|不详|不明)(?!(?:您|你)?是否)",
    r"(?:无法|没法|没办法|不能|难以|无从)[^,他她]{0,14}?(?:确定|得知|回答|判断|作答|给出|知道|知晓|确认|找到|推断"
    r"|获知|得出|答)",
    r"(?:无从)(?:得知|知晓|判断|回答)",
    r"(?:答不上来|答不了|回答不了|判断不了|看不出|查不到|找不到|没有找到|没找到|未找到|没查到|未查到|查无)",
    rf"{_NONE_ZH}(?:任何|什么|足够的?|相关的?|一段|一条|其他|更多|有关|对应|这方面的?|明确的?|具体的?|确切的?)*"
    rf"(?:{_SOURCE_ZH}|线索|说明|答案|依据|证据|提示|提及)",
    rf"{_NONE_ZH}(?:任何)?关于.{{0,14}}?(?:{_SOURCE_ZH}|线索|提及|说明)",
    rf"{_NONE_ZH}{_TELL_ZH}(?![谎服])",
    r"(?:暂无|缺乏|缺少|无)(?:相关|足够|任何|有关|更多)?(?:的)?(?:信息|记录|资料|内容|数据|答案)",
    r"(?:信息|资料|材料|数据|线索|依据)(?:不足|有限|不够|缺失|不全)",
    r"没有答案",
    r"(?:判断|推断|推测|确定|看|说|查|读|得|猜|想)不出",
    rf"{_NONE_ZH}(?:看到|见到|看见|发现|读到|听到|查到|找到)[^,]{{0,12}}?(?:{_TELL_ZH}|有关|相关|关于)",
)
ANYWHERE_ZH = (
    rf"{_SOURCE_ZH}[^,]{{0,10}}?{_NONE_ZH}{_TELL_ZH}",
    rf"{_SOURCE_ZH}[^,]{{0,6}}?(?:看不出|找不到|查不到|不存在|是空白|空白|缺失|不足以|没有相关|没有任何|没有关于|没有有关|没有这方面|没有这类|没有答案)",
    rf"{_SOURCE_ZH}[^,]{{0,6}}?(?:无法|不能|难以)(?:得出|回答|确定|判断|推断|看出|得知)",
    r"不足以(?:回答|判断|确定|作答|得出)",
    rf"(?:你|您)(?:们)?(?:之前|以前|此前|从来|从|还|并|也|都|只|只是)?{_NONE_ZH}(?:跟|向|对|和|与)?(?:告诉(?:过)?)?我(?:们)?",
    rf"(?:你|您|我们|双方|两(?:个)?人|两位|他们|大家|咱们|彼此)(?:们)?(?:之前|以前|此前|从来|都|也|还|从"
    rf"|并)?{_NONE_ZH}{_TELL_ZH}(?!服)",
    rf"(?:她|他|它|它们|小.|老.)(?:从来|也|还|从|并)?{_NONE_ZH}(?:提到|提及|提过|透露|说明|说过|交代|具体说|明确说"
    rf"|说(?=哪|什么|谁|多少|何时"
    r"|为什么|怎么|它|具体)|告诉我)",
    r"(?:这个|该|此)?问题(?:没有答案|无解|无法|不可回答)",
    rf"(?:{_NONE_ZH})说(?:明)?$",
    r"我(?:也|就|都|真的|实在)?(?:不知道|不清楚|不确定|不了解|不记得)$",
    r"前提(?:本身)?(?:就)?(?:有误|不成立|错误|不对|不正确|是错)",
    rf"{_NONE_ZH}(?:提到|提及|说明|透露|交代)(?=[^,]{{0,10}}(?:时间|日期|名字|姓名|原因|价格|地点|具体|内容|哪|谁"
    rf"|什么))",
)
#: What somebody did *not* say is no report.
REPORTED_ZH = re.compile(
    r"^(?:[^,]{0,6})(?<![没未有])(?:说|告诉(?!过?我)|回答|抱怨|认为|觉得|决定)(?:了|过|自己|他|她)"
)
CONTRAST_ZH = re.compile(
    r"^(?:但是|但|不过|可是|可|然而|却|其实|后来|而是|实际上|事实上)"
    # What somebody did for want of it: the want was theirs.
    r"|^(?:他|她|他们|她们|大家|两人|两个人)(?:只好|于是|就|才|便|改)"
)
#: Without being told, somebody did something: "没说明原因就走了".
MANNER_ZH = re.compile(r"[没未][^,]{1,10}?(?:就|便)(?!无法|不能|没法|没办法|难以|不|没)")
#: A cause: what was lacking was somebody's, unless it is a source.
CAUSE_ZH = re.compile(r"^(?:因为|由于)")
SOURCE_ZH = re.compile(_SOURCE_ZH)
CONCESSION_ZH = re.compile(r"^(?:虽然|尽管|虽说|即使|虽)")
GUESS_ZH = re.compile(r"^(?:所以|因此|那么)?(?:答案是|答案应该是|应该是|可能是|大概是|估计是?|我猜)")
IDLE_ZH = re.compile(r"只(?:是)?(?:提|说|谈|聊|讲)|^(?:但是|但|不过)(?:如果|您可以|你可以|请|我可以|若)")
