"""The words that the small models know, and how text is cut into them."""

import itertools
import string

SPECIAL = ["<unk>", "<s>", "</s>"]
CHAT_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"

# What words of three letters, with the blank before them, are made of, in their order. Bytes are spelled as in
# byte-level BPE.
LETTERS = ["\u0120", "bdklmnrst", "aeiou", "bdklmnrstpgvfzhj"]


def beginnings(length):
    return ["".join(word) for word in itertools.product(*LETTERS[:length])]


def vocabulary():
    """Special tokens, printable ASCII, and words with what they begin with.

    Every token is whole characters, so that the server can send each one as soon as it exists.
    """
    letters = [c for c in string.printable if c.isprintable() and c != " "] + ["\u0120", "\u010a"]
    return SPECIAL + letters + beginnings(4) + beginnings(3) + beginnings(2)


def merges():
    """The steps that make a word out of letters: pairs, the first step first."""
    return [(word[:-1], word[-1]) for length in (2, 3, 4) for word in beginnings(length)]
