"""Random tokenizer.json files, and random texts through them, against the tokenizers library."""
import functools
import json
import pathlib
import random
import string
import unicodedata

import dllm
import tokenizers as hf
from compare import Difference, Refused, same
from tokenizers import (decoders, models, normalizers, pre_tokenizers, processors, trainers)

WORDS = ("the quick brown fox jumps over a lazy dog can't won't I'll we've HTTP server naïve café "
         "Straße ΑΣ İstanbul ﬁne ２３ 中文字符 日本語 한국어 русский العربية हिन्दी 👩‍👩‍👧 e\u0301 a\u0300b "
         "x=1; foo_bar(baz) {} [] <tag> <s> </s> [MASK] 3.14 1,000,000 2024-01-02 ... -- # @ $ % & * "
         "\u00a0 \u200b \u2028 \ufeff \u0130 \u01c5 Ǆ ß").split(" ")
SPACES = [" ", " ", " ", "  ", "\n", "\t", "\r\n", "   ", "\u3000", "\u00a0", ""]
PATTERNS = [r"\s+", r"\d+", r"\p{L}+", r"[A-Z]", r"\d{1,3}(?=(?:\d{3})*\b)", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+",
            r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", r"[^\s\w]+", r"e", r"\b",
            r"\W+", r"\B", r"(?=[aeiou])", r"\s*", r"(?i)ss|fi|S", r"\p{Punct}+|[[:punct:]]", r"\p{Letter}+"]


@functools.cache
def is_known(point: int) -> bool:
    """Whether the reference has this character as Unicode 14 has it. Its crates for normal forms, accents, punctuation and
    BERT's cleaning have older tables, which lack a part of Unicode 8 to 14."""
    c = chr(point)
    category, around = unicodedata.category(c), f"a\u0301{c}\u0316b"
    without_marks = "".join(x for x in unicodedata.normalize("NFD", c) if unicodedata.category(x) != "Mn")
    bert = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return (category != "Cn"
            and all(form().normalize_str(around) == unicodedata.normalize(form.__name__, around)
                    for form in (normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD))
            and (normalizers.StripAccents().normalize_str(c) == "") == (category[0] == "M")
            and (normalizers.BertNormalizer(**bert | {"clean_text": True}).normalize_str(c) == "") == (category[0] == "C")
            and normalizers.BertNormalizer(**bert | {"strip_accents": True}).normalize_str(c) == without_marks
            and (len(pre_tokenizers.Punctuation().pre_tokenize_str(f"a{c}a")) == 3) == (category[0] == "P" or c in string.punctuation))


def text_of(rng: random.Random) -> str:
    text = "".join(rng.choice(WORDS) + rng.choice(SPACES) for _ in range(rng.randint(0, 14)))
    if rng.random() < 0.3:
        text = rng.choice(SPACES) + text
    for _ in range(rng.randint(0, 3)):
        point = rng.choice([rng.randrange(32, 127), rng.randrange(160, 0x3000), rng.randrange(0x10000, 0x1FFFF)])
        at = rng.randint(0, len(text))
        if is_known(point):
            text = text[:at] + chr(point) + text[at:]
    return text


def normalizer(rng: random.Random, metaspace: bool):
    kinds = [lambda: normalizers.NFC(), lambda: normalizers.NFD(), lambda: normalizers.NFKC(), lambda: normalizers.NFKD(),
             lambda: normalizers.Lowercase(), lambda: normalizers.StripAccents(),
             lambda: normalizers.Strip(left=rng.random() < .5, right=rng.random() < .5),
             lambda: normalizers.Replace(rng.choice(["a", " ", "``", "ß", "  "]), rng.choice(["", "b", "▁", "''"])),
             lambda: normalizers.Replace(hf.Regex(rng.choice([r"\s+", r"\d", r"[a-c]+", " {2,}"])), rng.choice(["", " ", "#"])),
             lambda: normalizers.Prepend(rng.choice(["▁", "x"])),
             lambda: normalizers.BertNormalizer(clean_text=rng.random() < .5, handle_chinese_chars=rng.random() < .5,
                                                strip_accents=rng.choice([None, True, False]), lowercase=rng.random() < .5)]
    chosen = [rng.choice(kinds)() for _ in range(rng.choice([0, 0, 1, 1, 2, 3]))]
    if not chosen:
        return None
    return chosen[0] if len(chosen) == 1 and rng.random() < .7 else normalizers.Sequence(chosen)


def pre_tokenizer(rng: random.Random):
    behaviors = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
    kinds = [lambda: pre_tokenizers.Whitespace(), lambda: pre_tokenizers.WhitespaceSplit(), lambda: pre_tokenizers.BertPreTokenizer(),
             lambda: pre_tokenizers.Digits(individual_digits=rng.random() < .5),
             lambda: pre_tokenizers.Punctuation(rng.choice(behaviors)),
             lambda: pre_tokenizers.Split(hf.Regex(rng.choice(PATTERNS)), rng.choice(behaviors), invert=rng.random() < .3),
             lambda: pre_tokenizers.Split(rng.choice([" ", "e", "th"]), rng.choice(behaviors), invert=rng.random() < .3)]
    chosen = [rng.choice(kinds)() for _ in range(rng.choice([0, 1, 1, 2, 3]))]
    return chosen


def post_processor(rng: random.Random, special: dict):
    if rng.random() < .5:
        return None
    single = rng.choice(["$A", "<s> $A", "$A </s>", "<s> $A </s>", "<s> <s> $A"])
    return processors.TemplateProcessing(single=single, pair="$A $B", special_tokens=[("<s>", special["<s>"]), ("</s>", special["</s>"])])


def make(rng: random.Random) -> hf.Tokenizer:
    kind = rng.choice(["byte_bpe", "byte_bpe", "char_bpe", "metaspace_bpe", "wordpiece", "unigram"])
    special = ["<unk>", "<s>", "</s>", "[MASK]"]
    corpus = [text_of(rng) for _ in range(30)]
    for word in special:  # else Unigram has a piece twice
        corpus = [text.replace(word, "") for text in corpus]
    size = rng.randint(80, 500)
    if kind == "byte_bpe":
        made = hf.Tokenizer(models.BPE(ignore_merges=rng.random() < .3))
        chain = pre_tokenizer(rng) + [pre_tokenizers.ByteLevel(add_prefix_space=rng.random() < .4, use_regex=rng.random() < .6)]
        trainer = trainers.BpeTrainer(vocab_size=256 + size, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
        made.decoder = decoders.ByteLevel()
    elif kind == "char_bpe":
        suffix = rng.choice(["", "</w>"])
        made = hf.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=rng.random() < .5, end_of_word_suffix=suffix))
        chain = pre_tokenizer(rng)
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, end_of_word_suffix=suffix, show_progress=False)
        made.decoder = decoders.BPEDecoder()
    elif kind == "metaspace_bpe":
        made = hf.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=rng.random() < .5))
        chain = [pre_tokenizers.Metaspace(prepend_scheme=rng.choice(["always", "first", "never"]), split=rng.random() < .7)]
        bytes_ = [f"<0x{i:02X}>" for i in range(256)] if made.model.byte_fallback else []
        trainer = trainers.BpeTrainer(vocab_size=size + len(bytes_), special_tokens=special + bytes_, show_progress=False)
        made.decoder = decoders.Metaspace()
    elif kind == "wordpiece":
        made = hf.Tokenizer(models.WordPiece(unk_token="<unk>", max_input_chars_per_word=rng.choice([100, 8])))
        chain = pre_tokenizer(rng) or [pre_tokenizers.Whitespace()]
        trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)
        made.decoder = decoders.WordPiece(cleanup=rng.random() < .5)
    else:
        made = hf.Tokenizer(models.Unigram())
        chain = [pre_tokenizers.Metaspace(prepend_scheme=rng.choice(["always", "first", "never"]), split=rng.random() < .7)]
        trainer = trainers.UnigramTrainer(vocab_size=size + 300, special_tokens=special, unk_token="<unk>", show_progress=False)
        made.decoder = decoders.Metaspace()
    if chain:
        made.pre_tokenizer = chain[0] if len(chain) == 1 else pre_tokenizers.Sequence(chain)
    chosen = normalizer(rng, kind in ("unigram", "metaspace_bpe"))
    if chosen is not None:
        made.normalizer = chosen
    made.train_from_iterator(corpus, trainer)
    flags = lambda: {name: rng.random() < .3 for name in ("single_word", "lstrip", "rstrip", "normalized")}
    added = [hf.AddedToken(word, **flags()) for word in rng.sample(["fox", "<tag>", "  ", "café", "HTTP", "<|x|>", "23"], rng.randint(0, 3))]
    made.add_tokens(added)
    made.add_special_tokens([hf.AddedToken(word, special=True, **flags()) for word in rng.sample(["<|im_start|>", "<|end|>", "[X]"], rng.randint(0, 2))])
    chosen = post_processor(rng, made.get_vocab())
    if chosen is not None:
        made.post_processor = chosen
    return made


def of_reference(call):
    """What the library answers; some of its own panics end a case without a verdict."""
    try:
        return call()
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise Refused("the reference panics") from None


def run_case(seed: int, folder: pathlib.Path) -> None:
    of_reference(lambda: compare(random.Random(seed), folder))


def compare(rng: random.Random, folder: pathlib.Path) -> None:
    theirs = make(rng)
    theirs.save(str(folder / "tokenizer.json"))
    try:
        ours = dllm.Tokenizer(folder, parse_special=True)
        with_special = dllm.Tokenizer(folder, parse_special=True, add_special=True, skip_special=True)
    except dllm.Error as error:
        raise Refused(str(error).splitlines()[0].replace(str(folder), "FOLDER")) from error
    about = json.loads(theirs.to_str())
    brief = {key: about[key] for key in ("normalizer", "pre_tokenizer", "post_processor", "added_tokens")}
    # tokenizers 0.23 decodes an added token as its normalized form, earlier ones and ours as it was added.
    renamed = {entry["id"] for entry in about["added_tokens"] if entry["normalized"] and about["normalizer"]}
    for _ in range(12):
        text = text_of(rng)
        want = theirs.encode(text, add_special_tokens=False).ids
        got = ours.encode(text)
        if got != want:
            tokens = [theirs.id_to_token(i) for i in got], [theirs.id_to_token(i) for i in want]
            raise Difference(f"encode {text!r}\n  ours   {tokens[0]}\n  theirs {tokens[1]}\n  of {json.dumps(brief)}")
        same(with_special.encode(text), theirs.encode(text).ids, f"encode {text!r} with special tokens")
        for ids in (want, [rng.randrange(theirs.get_vocab_size()) for _ in range(9)]):
            ids = [i for i in ids if i not in renamed]
            same(ours.decode(ids), theirs.decode(ids, skip_special_tokens=False), f"decode {ids}")
            same(with_special.decode(ids), theirs.decode(ids, skip_special_tokens=True), f"decode {ids} without special tokens")
