# SPDX-License-Identifier: BSD-3-Clause
"""The mutants of C source files, for tests/mutate: finds what can be changed, and writes the changes
into the source, where mutant(NUMBER) chooses one of them at run time.

Sources are read as clang-format leaves them: a function's braces stand in column 0. Within a function,
each full expression (a condition, a statement, a returned or initial value) is written twice, as it
is and changed: so no operands must be found, and mutants do not nest.
"""

import re
from collections import defaultdict
from dataclasses import dataclass

TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\d[\w.]*|\w+'
                   r"|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|[-+*/%&|^<>=!]=|&&|\|\||\S")
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
         "+": "-", "-": "+", "+=": "-=", "-=": "+=", "++": "--", "--": "++", "true": "false", "false": "true"}
DROPPED = "(dropped)"
TYPES = {"struct", "enum", "union", "const", "static", "unsigned", "int", "char", "double", "void", "_Static_assert"}
CAST = re.compile(r"\( (const )?(struct |enum |unsigned )?\w+[ *]*\)")
# freelist_fini is among them because, with the address sanitizer, freelists keep no blocks;
# pthread_mutex_lock because only the thread sanitizer sees the race.
UNTOUCHED = re.compile(r"\b(HASP_ASSERT|assert|fatal\w*|va_\w+|freelist_fini|pthread_mutex_lock|log_(?!in\b|limit)\w+) ?\("
                       r"|#|^\(void\) ?\w+$")
LOGS = re.compile(r"^log_(?!in$|limit)|_log(_|$)")
# `a < b ? a : b` and `if (a < b) b = a;` do the same with <=. xcalloc() allocates one element for none.
EQUIVALENT = re.compile(r"([^\s()]+)\s[<>]=?\s([^\s()]+)\s\?\s(\1\s+:\s\2|\2\s+:\s\1)(?![\w.\[(-])|xcalloc\(1\b")


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def flat(text):
    return " ".join(text.split())


@dataclass
class Mutant:
    file: str
    function: str
    line: int           # line of the change
    lines: range        # lines of the whole expression, in which the compiler may report an error
    start: int
    end: int
    kind: str           # what is changed: "value", "truth", "statement", "jump"
    before: str
    after: str
    number: int = 0

    @property
    def code(self):
        return "0" if self.after == DROPPED else self.after

    @property
    def key(self):
        return self.file, self.function, self.before, self.after

    def __str__(self):
        return f"{self.file}:{self.line} {self.function} #{self.number}\n- {self.before}\n+ {self.after}"


class Function:
    """Walks through a function, and collects the possible changes."""

    def __init__(self, file, text, head, start, end):
        self.file, self.text = file, text
        self.name = re.search(r"(\w+)\s*\(", head).group(1)
        self.is_bool = bool(re.search(r"\bbool\s+\w+\s*\(", head))
        self.tokens = [(m.group(), m.start(), m.end()) for m in TOKEN.finditer(text, start, end)]
        self.mutants = []
        at = 0
        while at < len(self.tokens):
            at = self.statement(at)

    def word(self, i):
        return self.tokens[i][0] if 0 <= i < len(self.tokens) else ""

    def skip(self, i, ends):
        """Returns the first token from i on that is in `ends`, and not in brackets opened after i."""
        depth = 0
        while i < len(self.tokens) and (depth or self.word(i) not in ends):
            depth += (self.word(i) in "([{") - (self.word(i) in ")]}")
            i += 1
        return i

    def statement(self, i):
        """Returns the token after the statement, or after its head: its body is the next statement."""
        word = self.word(i)
        if word in ("{", "}", "else", "do", ";"):
            return i + 1
        if word in ("if", "while", "switch", "for"):
            close = self.skip(i + 2, ")")
            if word in ("if", "while"):
                self.mutate(i + 2, close, "truth")
            elif word == "for":
                first = self.skip(i + 2, ";")
                self.mutate(first + 1, self.skip(first + 1, ";"), "truth")
            return close + 1
        if re.match(r"\w+_(each\w*|drain) \(", self.text[self.tokens[i][1]:]):      # a macro, as clang-format leaves it
            return self.skip(i + 2, ")") + 1
        if word in ("case", "default") or self.word(i + 1) == ":":
            return self.skip(i, ":") + 1
        end = self.skip(i, ";")
        if word in ("break", "continue") or (word == "return" and end == i + 1):
            self.add(i, end + 1, "jump", DROPPED, i)
        elif word == "return":
            self.mutate(i + 1, end, "return")
        elif word in TYPES or re.match(r"\w+ (\* ?)*[a-z_]\w* ?[=;,[]", " ".join(t[0] for t in self.tokens[i:i + 6])):
            if word not in ("static", "enum", "_Static_assert"):
                self.declaration(i, end)
        elif word != "goto":
            self.mutate(i, end, "statement")
        return end + 1

    def declaration(self, i, end):
        while (i := self.skip(i, "=") + 1) < end:
            after = min(self.skip(i, ","), end)
            if self.word(i) != "{":
                self.mutate(i, after, "value")
            i = after

    def add(self, i, end, kind, after, at):
        start, stop = self.tokens[i][1], self.tokens[end - 1][2]
        first, last, line = (self.text.count("\n", 0, x) + 1 for x in (start, stop, self.tokens[at][1]))
        self.mutants.append(Mutant(self.file, self.name, line, range(first, last + 1), start, stop, kind,
                                   flat(self.text[start:stop]), flat(after)))

    def is_binary(self, i, first):
        before = self.word(i - 1)
        if i == first or not re.match(r"[\w)\]]", before) or before == "return":
            return False
        begin = i - 1
        while before == ")" and self.word(begin) != "(":
            begin -= 1
        return not (before == ")" and CAST.fullmatch(" ".join(t[0] for t in self.tokens[begin:i])))

    def mutate(self, i, end, place):
        """Adds the mutants of the tokens [i, end), which are a whole expression."""
        if i >= end:
            return
        text = self.text[self.tokens[i][1]:self.tokens[end - 1][2]]
        words = [token[0] for token in self.tokens[i:end]]
        if UNTOUCHED.search(text):
            return
        kind = {"return": "truth" if self.is_bool else "value"}.get(place, place)
        equivalent = [at for match in EQUIVALENT.finditer(text) for at in range(*match.span())]
        last = re.search(r"([^\s(]+)\s([<>])\s(\S+)$", text)
        body = flat(self.text[self.tokens[end - 1][2]:][:300])
        if last and body.startswith((f") {last[1]} = {last[3]};", f") {last[3]} = {last[1]};")):
            equivalent.append(last.start(2))
        skip_to = i
        for at in range(i, end):
            word, start, _ = self.tokens[at]
            offset = start - self.tokens[i][1]
            if word == "sizeof" and self.word(at + 1) == "(":
                skip_to = self.skip(at + 2, ")")
            if at < skip_to or offset in equivalent:
                continue
            if word in ("+", "-") and not self.is_binary(at, i):
                continue
            if word.isdigit() and len(words) > 1:
                change = {"0": "1", "1": "0"}.get(word) or str(int(word) + 1)
            elif word == "!":
                change = ""
            else:
                change = SWAPS.get(word)
            if change is not None:
                self.add(i, end, kind, text[:offset] + change + text[offset + len(word):], at)
        self.mutate_whole(i, end, place, kind, text, words)

    def mutate_whole(self, i, end, place, kind, text, words):
        if kind == "truth" and not {"!", "!=", "==", "true", "false"} & set(words):
            self.add(i, end, kind, f"!({text})", i)
        elif place == "return" and words in (["0"], ["-", "1"]):
            self.add(i, end, kind, "-1" if words == ["0"] else "0", i)
        elif place == "return" and not self.is_bool and re.search(r"\(|^[a-z]", text) and text not in SWAPS:
            self.add(i, end, kind, "0", i)
        elif place == "statement":
            self.add(i, end, kind, DROPPED, i)


def mutants_of(file, text):
    """Returns all mutants of a source file."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", blank, text, flags=re.DOTALL)
    found = []
    for brace in re.finditer(r"^\{$", text, re.MULTILINE):
        end = text.find("\n}", brace.end())
        begin = max(text.rfind(mark, 0, brace.start()) for mark in (";", "}", "\n\n", "\n#"))
        head = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", text[begin + 1:brace.start()])
        name = re.search(r"(\w+)\s*\(", head)
        if name and "\n#" not in text[brace.end():end] and not LOGS.search(name.group(1)):
            found += Function(file, text, head, brace.end(), end).mutants
    return found


def planted(mutants, text):
    """Returns the source with its mutants, on the same lines."""
    places = defaultdict(list)
    for mutant in mutants:
        places[mutant.start, mutant.end, mutant.kind].append(mutant)
    for (start, end, kind), here in sorted(places.items(), reverse=True):
        old = text[start:end]
        if kind == "jump":
            new = f"{{ if (!mutant({here[0].number})) {old} }}"
        else:
            cast = {"truth": "!!", "statement": "(void)"}.get(kind, "")
            new = "".join(f"mutant({m.number}) ? {cast}({m.code}) : " for m in here) + f"{cast}({old})"
            new = new if kind == "statement" else f"({new})"
        text = text[:start] + new + text[end:]
    return text
