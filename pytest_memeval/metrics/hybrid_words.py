"""The small words that the hybrid matcher reads by: what has no weight, what denies, what says how things stand."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_WORDS = _words("""
    a an the of to in on at by for with from and or but as is are was were be been am do does did have has had his her
    their its my our your he she they it we you i me him them us that this these those there then than so very too
    also some any all each every who which what when where while because since if usually often now user will would
    shall should into onto up out over s
""")
STOP_CHARS = frozenset(
    "的了着过在是把被由给跟和与及就都也还才又再很会要用将可以能这那其之为所并且但而或从到对于里上下中有我你他她它们自己用户"
    "请个一得地呢吗吧啊让做"
)

#: The user, in whatever person a memory is written.
SELF_WORDS = _words("i me my mine myself he him his himself she her hers herself user we us our")
SELF_CHINESE = ("我们", "我", "自己", "本人", "用户", "咱")

NEGATION_WORDS = _words("""
    not no never without neither nor cannot none nothing hardly don't doesn't didn't isn't aren't wasn't weren't won't
    wouldn't can't couldn't shouldn't hasn't haven't hadn't mustn't dont doesnt isnt cant wont avoid avoids except
""")
NEGATIONS_CHINESE = _words("""
    没来得及 来不及 从来没有 从来不 再也不 没有 并未 并不 并没 从不 从未 从没 绝不 不再 尚未 不 没 未 无 别 勿
""")
#: Where the sign of a negation is part of another word.
NO_NEGATION = _words("""
    不错 不过 不仅 不但 不管 不同 不久 不断 不少 不得不 不论 不妨 不足 不止 不如 差不多 对不起 特别 分别 区别 级别 性别
    告别 个别 识别 别人 别的 别墅 无论 无线 无锡 非常 未来 没关系 没事 忍不住 了不起 无人机 无所谓 无糖 无障碍 未必
    不好意思 动不动 不知不觉
""")
#: What may stand between a negation and the word denied.
BETWEEN_WORDS = _words(
    "do does did be is are was been have has had to go ever really any a an the able like yet it longer"
)
BETWEEN_CHARS = frozenset("用要能会想该必敢愿意再太怎么是有去来给被在把让许应可以得需")
#: Verbs that are denied together with what follows them.
LIGHT_VERBS = _words("想 想要 用 使用 需要 希望 打算 计划 want wants need needs use uses using")
#: 跟不上, 静不下来: what is denied stands before the negation.
COMPLEMENTS = frozenset("上下到了住起完动好清懂见成出过着")

SURNAMES = frozenset(
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭罗梁宋郑谢韩唐冯于董萧曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴夏钟汪田任姜范方"
    "石姚谭廖邹熊陆郝孔崔康毛邱秦江史顾侯邵孟段雷钱汤尹黎常武乔贺赖龚骆殷陶柳温俞葛鲁裴霍庞翁"
)
#: What separates two sides that cannot be exchanged.
CONNECTORS = _words("over than before after instead rather from 比 再 换成 而不是")

#: 小陈, 老王, 李工: the surname is a group.
CALLED = re.compile(
    r"(?<![大最微])[小老阿]([^\W\d_a-z])(?![程说区时学型组心费票吃路])|([^\W\d_a-z])(?:工|总|老师|医生|经理|教授)"
)
QUOTED = re.compile(r"[「『《“\"]([^」』》”\"]{1,20})[」』》”\"]")

COPULA = re.compile(r"\b(?:is|are|was|were) (?:his|her|my|their|our|the|a|an)\b|是")
#: A passive, or a verb that is said from the receiver's side.
PASSIVE = re.compile(
    r"\b(?:is|are|was|were|been|be|being|got)\b[\w' ]{1,30}?\b\w+(?:ed|en|t)\b[\w' ]{0,40}?\bby\b"
    r"|\b[a-z]+ from (?:her|him|me)\b|被|由|归"
)

_CJK = r"[^\W\d_a-z]"
#: How things stand. ``former`` does not count where the text goes on to what is the case now.
STATES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "cancelled",
        re.compile(
            r"取消|放弃了?|作罢|泡汤|不了了之|\bcancel(?:s|led|ed)?\b|called off|g[ai]ve(?:n)? up"
            r"|abandon|scrapped|dropped the"
        ),
    ),
    (
        "former",
        re.compile(
            rf"(?<![点月日号年天周一二三四五六饭睡班半整分钟])以前(?!的)|曾经(?!的)|曾(?!{_CJK}{{1,2}}[是的])|过去(?:常|一直|喜欢|住|是)"
            r"|used to |formerly|previously"
        ),
    ),
    (
        "stopped",
        re.compile(
            rf"no longer(?! than)|not any ?more|anymore|(?<!就)不再"
            rf"|(?:现在|已经|早|早就|早已|后来|最近|都)不{_CJK}{{1,4}}了"
        ),
    ),
    (
        "planned",
        re.compile(
            r"计划|打算|准备|预定|即将|将要|想(?![法象到起])|在冲|备考|等着|待(?:办|定|提交|完成|上线|产|批|审|签|配)"
            r"|报名(?!了)|目标|考虑|\bplan(?:s|ning|ned)? (?:to|on)|intend|going to|wants? to|would like to"
            r"|hop(?:es|ing) to|aims? to|preparing|prepares|training for|about to|\bwill\b|applied for"
            r"|appl(?:y|ies|ying) for|considering|thinking of"
        ),
    ),
    (
        "ongoing",
        re.compile(
            r"正在|(?<![反改修纠真])正(?=[从往把由向跟和处忙备读学做写看])|开发中|进行中|还在|currently|in progress"
            r"|is (?!now)[a-z]+ing\b|under way|underway|\bstill "
        ),
    ),
    ("pending", re.compile(r"还没|尚未|没有?来得及|还不|not yet|hasn't|haven't|yet to|still to")),
    (
        "done",
        re.compile(
            rf"已经|已(?={_CJK})|完成|[完好成掉到过](?:了|$|[,，。])|(?:买|考|拿|通过|提|办|搬|换|升|毕业|离职|辞职|入职)了"
            rf"|(?<![超通经不透难胜没])(?<=[^\W\d_])过(?={_CJK})(?![敏程度去来年期夜节滤量户于道])|(?<!还没)打了|接种(?:了|$)"
            r"|has (?:been |already |now )?(?!to\b)[a-z]+(?:ed|en)\b|finished|completed|already|\bdone\b|is now"
            r"|was (?!born|raised)[a-z]+ed\b|passed|achieved|\bgot the\b"
        ),
    ),
)
NOW = re.compile(r"现在|如今|\bnow\b")
