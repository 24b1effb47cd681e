//! The real binary against a made-up Web: crawls, crashes, command lines, browsers.

mod browser;
mod cache;
mod cluster;
mod cluster_fixture;
mod cluster_ops;
mod cluster_ranks;
mod commands;
mod connections;
mod corpora;
mod crash;
mod crawl;
mod damage;
mod endless;
mod fixture;
mod full_disk;
mod hosts;
mod import;
mod nginx;
mod pages;
mod partition;
mod revisit;
mod robots;
mod seeds;
mod site;
mod traps;
mod webdriver;
