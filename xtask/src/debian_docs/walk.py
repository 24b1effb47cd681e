#!/usr/bin/env python3
"""Walks web sites by their links and prints what it was answered: the yardstick for a crawler.

Reads lines "HOST ADDRESS PORT FRONT", prints lines "STATUS<tab>MEDIA TYPE<tab>URL". Stays on each host, obeys
robots.txt (as read by Python's own urllib.robotparser, for the agent "farol"), follows a, area, frame and iframe,
<base> and redirects; rel=nofollow and the robots meta tag are obeyed. Standard library only, and slow on purpose:
it should be easy to see that it is right.
"""

import http.client
import multiprocessing
import re
import sys
import urllib.parse
import urllib.robotparser
from html.parser import HTMLParser

AGENT = "farol"
# What a browser leaves unescaped in paths and queries.
SAFE = "!$%&'()*+,-./:;=@[\\]^_|~"


class Links(HTMLParser):
    """Collects the references that a reader could follow."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.base = None
        self.found = []
        self.nofollow = False

    def handle_starttag(self, tag, attrs):
        # The first of two attributes with one name counts.
        values = {}
        for name, value in attrs:
            values.setdefault(name, value or "")
        if tag == "base" and self.base is None and "href" in values:
            self.base = values["href"]
        elif tag == "meta" and values.get("name", "").lower() in ("robots", AGENT):
            words = re.split(r"[\s,]+", values.get("content", "").lower())
            self.nofollow |= "nofollow" in words or "none" in words
        elif tag in ("a", "area") and "href" in values:
            if "nofollow" not in values.get("rel", "").lower().split():
                self.found.append(values["href"])
        elif tag in ("frame", "iframe") and "src" in values:
            self.found.append(values["src"])


def resolve(base, reference):
    """The absolute URL that a reference means (RFC 3986, section 5.2), without its fragment.

    None where it means none of the Web. Python's own urljoin is not used: it drops empty segments, which
    browsers keep.
    """
    reference = re.sub(r"[\t\n\r]", "", reference).strip()
    # Browsers read a backslash before the query as a slash.
    before = re.match(r"[^?#]*", reference).group()
    reference = before.replace("\\", "/") + reference[len(before) :]
    try:
        ours, theirs = urllib.parse.urlsplit(base), urllib.parse.urlsplit(reference)
        scheme = theirs.scheme or ours.scheme
        if scheme not in ("http", "https") or (theirs.scheme not in ("", ours.scheme) and not theirs.netloc):
            return None
        place, path, query = theirs, theirs.path, theirs.query
        if not theirs.netloc:
            place = ours
            if not path:
                path, query = ours.path, query or ours.query
            elif not path.startswith("/"):
                path = ours.path[: ours.path.rfind("/") + 1] + path
        if not place.hostname:
            return None
        port = f":{place.port}" if place.port not in (None, 80) else ""
    except ValueError:
        return None
    path = urllib.parse.quote(without_dots(path), safe=SAFE)
    query = "?" + urllib.parse.quote(query, safe=SAFE + "?") if query else ""
    return f"{scheme}://{place.hostname.lower()}{port}{path}{query}"


def without_dots(path):
    kept = []
    segments = path.split("/")[1:] or [""]
    for number, segment in enumerate(segments, 1):
        plain = segment.lower().replace("%2e", ".")
        if plain not in (".", ".."):
            kept.append(segment)
            continue
        if plain == ".." and kept:
            kept.pop()
        if number == len(segments):
            kept.append("")
    return "/" + "/".join(kept)


def references(url, body):
    declared = re.search(rb"charset\s*=\s*[\"']?([A-Za-z0-9_-]+)", body[:4096])
    try:
        text = body.decode(declared.group(1).decode() if declared else "utf-8", "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    links = Links()
    links.feed(text)
    links.close()
    if links.nofollow:
        return []
    base = resolve(url, links.base) if links.base is not None else None
    return [resolve(base or url, reference) for reference in links.found]


class Site:
    def __init__(self, line):
        self.host, self.address, port, self.front = line.split()
        self.port = int(port)
        self.connection = None

    def get(self, target):
        """Asks for one path, a second time where the server has closed the connection meanwhile."""
        for attempt in (1, 2):
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection(self.address, self.port, timeout=60)
                self.connection.request("GET", target, headers={"Host": self.host, "User-Agent": "walk"})
                answer = self.connection.getresponse()
                return answer, answer.read()
            except (http.client.HTTPException, OSError):
                self.connection = None
                if attempt == 2:
                    raise

    def rules(self):
        parser = urllib.robotparser.RobotFileParser()
        answer, body = self.get("/robots.txt")
        parser.parse(body.decode("utf-8", "replace").splitlines() if answer.status == 200 else [])
        return parser

    def walk(self):
        rules = self.rules()
        inside = f"http://{self.host}/"
        first = resolve(inside, self.front)
        known, waiting, seen = {first}, [first], []
        while waiting:
            url = waiting.pop()
            answer, body = self.get(url[len(inside) - 1 :])
            media_type = (answer.headers.get("Content-Type") or "").split(";")[0].strip().lower()
            seen.append(f"{answer.status}\t{media_type}\t{url}")
            found = []
            if answer.status in (301, 302, 303, 307, 308):
                found = [resolve(url, answer.headers.get("Location") or "")]
            elif answer.status == 200 and media_type == "text/html":
                found = references(url, body)
            for link in found:
                if link and link.startswith(inside) and link not in known and rules.can_fetch(AGENT, link):
                    known.add(link)
                    waiting.append(link)
        return seen


def walk(line):
    return Site(line).walk()


if __name__ == "__main__":
    sites = [line for line in sys.stdin if line.strip()]
    with multiprocessing.Pool(2) as pool:
        for seen in pool.imap_unordered(walk, sites):
            print("\n".join(seen), flush=True)
