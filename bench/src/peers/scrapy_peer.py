"""Scrapy as a crawler to compare with: scrapy_peer.py URL DOMAIN CONCURRENCY, through the proxy in http_proxy.

Settings as Scrapy's page on broad crawls advises, and whatever a crawl of plain pages does not need is off. URLs that
were seen are dropped before they become requests, which spares Scrapy its long way through the middlewares.
"""

import sys

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor

URL, DOMAIN, CONCURRENCY = sys.argv[1], sys.argv[2], int(sys.argv[3])


class Peer(Spider):
    name = "peer"
    start_urls = [URL]
    links = LinkExtractor(allow_domains=[DOMAIN])
    seen = {URL}

    def parse(self, response):
        if not isinstance(response, HtmlResponse):
            return
        for link in self.links.extract_links(response):
            if link.url not in self.seen:
                self.seen.add(link.url)
                yield Request(link.url, callback=self.parse, dont_filter=True)


process = CrawlerProcess(
    {
        "CONCURRENT_REQUESTS": CONCURRENCY,
        # Also the number of connections that it keeps to one address, and a proxy is one address.
        "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENCY,
        "DOWNLOAD_DELAY": 0,
        # The queue that is advised for broad crawls looks at all hosts for each request: slower with a thousand.
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
        "ROBOTSTXT_OBEY": True,
        "LOG_ENABLED": False,
        "COOKIES_ENABLED": False,
        "RETRY_ENABLED": False,
        "REFERER_ENABLED": False,
        "COMPRESSION_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "MEMUSAGE_ENABLED": False,
        "STATS_CLASS": "scrapy.statscollectors.DummyStatsCollector",
        "SPIDER_MIDDLEWARES": {
            "scrapy.spidermiddlewares.depth.DepthMiddleware": None,
            "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
        },
        "REACTOR_THREADPOOL_MAXSIZE": 20,
        "DOWNLOAD_TIMEOUT": 15,
        "USER_AGENT": "scrapy-peer",
    }
)
process.crawl(Peer)
process.start()
