"""Judges Farol's reader of pages by annotated pages and by the sentences of documentation.

A sentence is a run of text of p, li, dd or td that ends as sentences do and has at least six words, as lxml reads the
page. It is lost where its words do not stand one after the other in what is indexed, and missing from the main text
where they do not stand there. One that more than two of the pages read have is part of the site's frame, not of a page.
"""

import argparse
import collections
import json
import os
import random
import re
import subprocess

import lxml.html

OF_TEXT = {"p", "li", "dd", "td"}
BREAKS = OF_TEXT | set(
    "pre table tr th tbody thead caption ul ol dl dt div section article main nav aside header footer h1 h2 h3 h4 h5 h6 "
    "blockquote figure figcaption details summary form fieldset hr center address".split()
)
SILENT = set(
    "script style template head select button textarea svg object iframe video audio canvas datalist math noscript".split()
)


def is_hidden(element):
    style = re.sub(r"\s", "", (element.get("style") or "").lower())
    return element.get("hidden") is not None or "display:none" in style or "visibility:hidden" in style


def collect(element, runs, of_text):
    """Appends the text of an element to `runs`, one entry for each stretch without a break."""
    if not isinstance(element.tag, str) or element.tag in SILENT or is_hidden(element):
        return
    if element.tag in BREAKS:
        of_text = element.tag in OF_TEXT
        runs.append((of_text, []))
    if element.text:
        runs[-1][1].append(element.text)
    for child in element:
        if child.tag == "br":
            runs[-1][1].append(" ")
        collect(child, runs, of_text)
        if isinstance(child.tag, str) and child.tag in BREAKS:
            runs.append((of_text, []))
        if child.tail:
            runs[-1][1].append(child.tail)


def words(text):
    return re.findall(r"\w+", text.lower())


def sentences(html):
    runs = [(False, [])]
    collect(lxml.html.document_fromstring(html), runs, False)
    for of_text, pieces in runs:
        if of_text:
            text = re.sub(r"\s+", " ", "".join(pieces)).strip()
            for sentence in re.split(r"(?<=[.!?])\s+", text):
                found = words(sentence)
                if len(found) >= 6:
                    yield " ".join(found)


def decoded(data):
    declared = re.search(rb"charset=[\"']?([\w-]+)", data[:2000])
    try:
        text = data.decode(declared.group(1).decode() if declared else "utf-8")
    except (LookupError, UnicodeDecodeError):
        text = data.decode("latin-1")
    return re.sub(r"^\s*<\?xml[^>]*\?>", "", text)


def read(reader, files):
    """What Farol makes of files, one dictionary each."""
    for at in range(0, len(files), 100):
        part = [reader, *files[at : at + 100]]
        out = subprocess.run(part, capture_output=True, encoding="utf-8", check=True).stdout
        yield from (json.loads(line) for line in out.split("\n") if line)


def judge_main_text(reader, gold, folder):
    with open(gold, encoding="utf-8") as file:
        pages = json.load(file).values()
    paths = {name: os.path.join(at, name) for at, _, names in os.walk(folder) for name in names}
    pages = [page for page in pages if page["file"] in paths]
    texts = {page["file"]: page["text"] for page in read(reader, [paths[page["file"]] for page in pages])}
    right = missed = wrong = 0
    for page in pages:
        text = texts[paths[page["file"]]]
        right += sum(segment in text for segment in page["with"])
        missed += sum(segment not in text for segment in page["with"])
        wrong += sum(segment in text for segment in page["without"])
    precision, recall = right / (right + wrong), right / (right + missed)
    f1 = 2 * precision * recall / (precision + recall)
    print(f"{len(pages)} annotated pages: precision {precision:.4f}, recall {recall:.4f}, F1 {f1:.4f}", flush=True)


def judge_site(reader, name, folder, count):
    files = sorted(
        path
        for at, _, names in os.walk(folder)
        for path in (os.path.join(at, name) for name in names)
        if path.endswith((".html", ".htm")) and not os.path.islink(path)
    )
    random.Random(7).shuffle(files)
    total, lost, missing, pages = 0, 0, [], collections.Counter()
    files = files[:count]
    for page in read(reader, files):
        main, rest = (f" {' '.join(words(page[part]))} " for part in ("text", "rest"))
        with open(page["file"], "rb") as file:
            found = list(sentences(decoded(file.read())))
        pages.update(set(found))
        for sentence in found:
            total += 1
            if f" {sentence} " not in main:
                missing.append(sentence)
                lost += f" {sentence} " not in rest
    own = sum(pages[sentence] <= 2 for sentence in missing)
    share = lambda part: f"{100 * part / max(1, total):.2f} %"
    print(f"| {name} | {len(files)} | {total} | {share(lost)} | {share(len(missing))} | {share(own)} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reader", required=True)
    parser.add_argument("--gold")
    parser.add_argument("--pages")
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--site", action="append", default=[])
    options = parser.parse_args()
    if options.gold:
        judge_main_text(options.reader, options.gold, options.pages)
    if options.site:
        print("| site | pages | sentences | lost | not in the main text | of these the page's own |")
        print("|---|---:|---:|---:|---:|---:|")
    for site in options.site:
        name, folder = site.split("=", 1)
        judge_site(options.reader, name, folder, options.count)


main()
