"""bm25s as an engine to compare with: bm25s_peer.py plain|stemmed K1 B DOCUMENTS QUERIES RUN

Plain as the library comes; stemmed with the English Snowball stemmer and the library's English stop words.
Needs bm25s and PyStemmer.
"""

import sys

import bm25s
import Stemmer

HOW, K1, B = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
DEPTH = 1000


def read(path):
    with open(path, encoding="utf-8") as lines:
        pairs = [line.rstrip("\n").split("\t", 1) for line in lines]
    return [name for name, _ in pairs], [text for _, text in pairs]


def tokenize(texts):
    how = {"stopwords": "en", "stemmer": Stemmer.Stemmer("english")} if HOW == "stemmed" else {"stopwords": None}
    return bm25s.tokenize(texts, show_progress=False, **how)


names, texts = read(sys.argv[4])
numbers, queries = read(sys.argv[5])
index = bm25s.BM25(k1=K1, b=B)
index.index(tokenize(texts), show_progress=False)
with open(sys.argv[6], "w", encoding="utf-8") as run:
    for number, query in zip(numbers, queries):
        found, scores = index.retrieve(tokenize([query]), corpus=names, k=min(DEPTH, len(names)), show_progress=False)
        for rank, (name, score) in enumerate(zip(found[0], scores[0]), 1):
            if score > 0:
                run.write(f"{number} Q0 {name} {rank} {score} bm25s\n")
