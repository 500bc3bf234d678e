"""Tokens that have no business where the fuzzer puts them: numbers, durations, times, names, the strange."""

from __future__ import annotations

import re


def _words(text: str) -> tuple[str, ...]:
    """Split at blanks."""
    return tuple(text.split())


NUMBERS = (
    *_words("0 1 -1 2 3 5 7 8 16 64 0.5 2.5 -0 1e3 1e-3 1e300 1e-399 1e999 -1e400 1000000 1000001"),
    *_words("2147483648 9223372036854775807 9223372036854775808 99999999999999999999 1e999999999999"),
    *_words("010 0x10 1_000 .5 +1 12e NaN .nan .inf Infinity -Infinity"),
    *("9" * 64, "9" * 65, "1" * 5000, "0." + "3" * 62),
)
DURATIONS = (
    *_words("0s 1s 299s 5m 15m 1h 90m 4h 8h 9h 1d 7d 366d 367d 36500d 36501d 1w 1-12:00:00 25:00:00"),
    *_words("0-00:00:01 1:30 1.5h 0.1s 1h1h 1m1h -1h 8 h 99999999999999w PT8H \u0663h"),
    *('"1h 30m"', '" 1h"'),
)
TIMES = (
    *_words("1970-01-01T00:00:00Z 2026-10-02T12:00:00Z 2026-10-09T11:59:59Z 2026-10-09T12:00:00Z"),
    *_words("2026-10-09T12:00:01Z 2026-10-09T16:00:00Z 2026-10-09T14:00:00+02:00 2026-10-09T12:00:00"),
    *_words("2026-10-09 2026-02-30T12:00:00Z 9000-01-01T00:00:00Z 9999-12-31T23:59:59Z 1760011200"),
    *_words("0001-01-01T00:00:00+23:59 9999-12-31T23:59:59-23:59 1969-12-31T23:59:59Z 12:00:00"),
    *_words("2026-10-09T24:00:00Z 2026-10-09T12:00:60Z 2026-10-09T12:00:00.999999999Z 2026-10-09T12Z"),
    *_words("2026-10-09T12:00:00+99:99 \u0662026-10-09T12:00:00Z"),
)
SIZES = (
    *_words("0 1 1K 64G 2TiB 1024P 1025P 1.5K 0.3B 64gb 512g 99999999999P G -1G 1e3G"),
    *_words("0% 4% 100% 101% 0.1% 4 % -1% 1e1%"),
)
HOSTS = (
    *_words("n[1-3] n[001-010] n[1-2]x[1-2] n[1-100000] n[1-100001] n[1-9999]x[1-9999] n[3-1] n[01-1]"),
    *_words("n[1- n] n[] n,,m n[[1]] n[1-999999999999999999] n[1-1,1-1] n1,n1 n[a-b] node-1 saturn-1"),
    *('"n 1"', '"a,b"', '"a|b"', '"a:8"', f"n[{'1,' * 3000}1]", "[1-2]" * 16),
)
WORDS = (
    *_words("null ~ true false no yes on pending running stopping up down draining allocated unallocated"),
    *_words("node leaf block cluster budget fair_tree sliding tumbling greedy auto start keep preempt wait"),
    *_words("reject ended vision nobody a/b saturn h100 b200 id name names weight children placement state"),
)
STRANGE = (
    *("", '""', "''", '" "', '"\\ud800"', '"\\u0000"', '"a\\nb"', '"a\\u2028b"', '"\\x41"', '"\\e"'),
    *_words(
        "\u00e9 \u540d \U0001f986 \u202e \u200b \u0130 \u0663 \uff11 \u00bd \ufeff \ufdd0 e\u0301 \u1f88"
    ),
    *(
        "\x85",
        "\xa0",
        "\x7f",
        "\ud800",
        "a" * 256,
        "a/" * 200,
        '"' + "\U0001f986" * 300 + '"',
        "a " * 99 + "a",
    ),
    *("[]", "{}", "[[]]", "[{}]", "{a: 1}", "[1, 2]", "{a: 1, a: 2}", "{? a}", "[a: 1]", "{[a]: 1}", "[,]"),
    *("*a", "&a 1", "&a [*a]", "&a", "!!int 3", "!!binary aGk=", "!!set {a}", "!x 1", "!<tag:x,1:y> 1", "!"),
    *("!!python/object/apply:os.getpid []", "!!timestamp 2026-10-09", "<<", "{<<: {a: 1}}", "{<<: *a}", "="),
    *("|\n  a", "|9\n a", ">-\n  a", "? a", "- a", "# a", "%", "@", "`", "{", "}", "[", "]", "'", '"', ": "),
    *("a: b", "a: b: c", "\t1", "[\t1]", "a\tb", "---", "...", "-\n-\n", "[" * 70 + "]" * 70),
    *("[" * 3000 + "]" * 3000, "{a: " * 63 + "1" + "}" * 63, '{"a":' * 80 + "1" + "}" * 80, "- " * 900),
    *("[" + "0," * 2000 + "0]", "[" + "[]," * 900 + "[]]", "{" + "a: {}, " * 300 + "}"),
)
SPLINTERS = (
    b"\0",
    b"\t",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\r",
    b"\x1b[31m",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
)
"""Bytes that no text should hold, or not there."""

POOLS = (NUMBERS, DURATIONS, TIMES, SIZES, HOSTS, WORDS, STRANGE)

_KINDS = (
    (re.compile(r"-?[0-9.]+"), NUMBERS),
    (re.compile(r'"?[0-9]{4}-.*'), TIMES),
    (re.compile(r'"?[0-9.]+[smhdw].*'), DURATIONS),
    (re.compile(r'"?[0-9.]+([KMGTP].*|%"?)'), SIZES),
    (re.compile(r".*(\[|-[0-9]).*", re.DOTALL), HOSTS),
)


def alike(token: str) -> tuple[str, ...]:
    """Return the tokens that are of the same kind as this one."""
    return next((pool for like, pool in _KINDS if like.fullmatch(token)), WORDS)
