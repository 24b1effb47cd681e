//! Hands out the URLs of a server that is in its turn, and takes back those that come back.

use crate::Error;
use crate::urls::record::Slim;
use crate::urls::veuni::dispatch::due_queue::is_soon;
use crate::urls::veuni::dispatch::in_flight::{Out, Place};
use crate::urls::veuni::dispatch::url_order::Candidate;
use crate::urls::veuni::{Veuni, split};
use crate::urls::{Drawn, Visit};
use farol_base::fingerprint::hash64;
use farol_base::{CanonicalUrl, Host, Scheduled, Timestamp};
use std::cmp::Reverse;

impl Veuni {
    pub(in crate::urls::veuni) fn hand_out(
        &mut self,
        host: &Host,
        limit: usize,
        now: Timestamp,
    ) -> Result<Drawn, Error> {
        self.now = self.now.max(now);
        self.asked = limit;
        self.collect()?;
        let hash = hash64(host.as_str().as_bytes());
        // Who holds a host of a block that is not in turn has it for what is in memory, and waits for no merge.
        if !self.held.contains(host) {
            self.bring_to_turn(hash)?;
        }
        let at = self.route(hash);
        let has_seat = self.seat(at, hash, host.as_str());
        let has_seat = self.unless_damaged(at, has_seat)?.unwrap_or(false);
        let is_damaged = self.blocks[at].damage.is_some();
        if !has_seat && (is_damaged || self.soon.next(host.as_str()).is_none()) {
            return Ok(Drawn::default());
        }
        self.hold(at, host);
        let mut drawn = Drawn::default();
        loop {
            self.draw_window(at, host, limit, now, &mut drawn);
            let ready = self.ready(at, host.as_str(), now, limit - drawn.urls.len());
            let ready = self.unless_damaged(at, ready)?.flatten();
            let next = ready.into_iter().chain(self.soon.next(host.as_str())).min();
            if drawn.urls.len() >= limit || next.is_none_or(|next| next > now) {
                drawn.next_due = next.map(|next| next.max(now));
                return Ok(drawn);
            }
            let Some((path, known, block)) = self.take_first(at, host.as_str(), now) else {
                return Ok(drawn);
            };
            if let Ok(url) = host.stored_page(&path) {
                give(url, known, block, &mut self.out, &mut drawn);
            }
        }
    }

    /// Draws what is ready of a server, all at once, where none of its pages is in memory for another reason.
    fn draw_window(&mut self, at: usize, host: &Host, limit: usize, now: Timestamp, drawn: &mut Drawn) {
        let block = &mut self.blocks[at];
        let place = (block.number, block.generation);
        let Some(turn) = &mut block.turn else { return };
        let Some(seat) = turn.seats.get_mut(host.as_str()) else { return };
        if self.soon.next(host.as_str()).is_some() || !seat.returned.is_empty() {
            return;
        }
        while drawn.urls.len() < limit && seat.window.front().is_some_and(|first| first.due() <= now) {
            let first = seat.take_first(|first| (host.stored_page(first.path()), first.take_known()));
            if let Some((Ok(url), known)) = first
                && !turn.aside.contains(&url)
            {
                give(url, known, Some(place), &mut self.out, drawn);
            }
        }
    }

    /// Has a server sit down, where its block is in turn and knows it; says whether.
    fn seat(&mut self, at: usize, hash: u64, host: &str) -> Result<bool, Error> {
        let Some(turn) = &mut self.blocks[at].turn else { return Ok(false) };
        if !turn.seats.contains_key(host) {
            let Some((ordinal, server)) = turn.file.server(hash, host)? else { return Ok(false) };
            turn.sit(ordinal, 0, server);
        }
        Ok(true)
    }

    /// Takes the page of a server that comes first, of those that its turn has made ready and those in memory; with the
    /// block that it is from.
    fn take_first(&mut self, at: usize, host: &str, now: Timestamp) -> Option<(String, Slim, Option<Place>)> {
        let block = &mut self.blocks[at];
        let place = (block.number, block.generation);
        let mut seat = block.turn.as_mut().and_then(|turn| turn.seats.get_mut(host));
        if let Some((path, known, place)) = seat.as_mut().and_then(|seat| seat.returned.pop()) {
            return Some((path, known, Some(place)));
        }
        let of_turn = seat.as_ref().and_then(|seat| seat.window.front()).filter(|ready| ready.due() <= now);
        let of_soon = self.soon.first(host).filter(|(_, record)| record.due <= now).map(|(path, record)| {
            let due = Some(record.due);
            let candidate = Candidate { path_bytes: path.len(), depth: record.depth, due };
            (self.options.redistribution.key(&candidate, now, false), path)
        });
        match of_soon {
            Some((key, path)) if of_turn.is_none_or(|ready| key <= ready.key) => {
                let record = self.soon.take(host, &path)?;
                Some((path.to_string(), Slim::of(record), None))
            }
            _ => {
                let first = seat?.take_first(|first| (first.path().to_string(), first.take_known()))?;
                Some((first.0, first.1, Some(place)))
            }
        }
    }

    /// A URL was visited: it is no longer out, and waits in memory where it is due again soon.
    pub(in crate::urls::veuni) fn came_back(&mut self, url: &CanonicalUrl, visit: &Visit) {
        let (host, path) = split(url);
        let out = self.out.remove(url);
        let from = out.as_ref().and_then(|out| out.block);
        let before = out.map(|out| out.known).or_else(|| self.soon.take(host, path).map(Slim::of));
        let is_kept = before.filter(|_| is_soon(visit)).is_some_and(|known| {
            let mut record = known.into_record();
            record.visit(visit);
            self.soon.keep(host, path, record, self.held.contains(&url.host()))
        });
        let at = self.route(hash64(host.as_bytes()));
        let block = &mut self.blocks[at];
        if let Some(turn) = &mut block.turn
            && !is_kept
            && from != Some((block.number, block.generation))
        {
            turn.set_aside(url);
        }
    }

    pub(in crate::urls::veuni) fn take_back(&mut self, url: &CanonicalUrl) {
        let Some(out) = self.out.remove(url) else { return };
        let (host, path) = split(url);
        let hash = hash64(host.as_bytes());
        let at = self.route(hash);
        let is_held = self.held.contains(&url.host());
        let Some(place) = out.block else {
            return self.soon.put(host, path, out.known.into_record(), is_held);
        };
        let block = &mut self.blocks[at];
        block.resume = None;
        // Without a turn it stands among the others when the next one begins.
        let Some(turn) = &mut block.turn else { return };
        if place != (block.number, block.generation) {
            turn.set_aside(url);
        }
        if !turn.seats.contains_key(host)
            && let Ok(Some((ordinal, server))) = turn.file.server(hash, host)
        {
            turn.sit(ordinal, 0, server);
        }
        if let Some(seat) = turn.seats.get_mut(host) {
            seat.returned.push((path.to_string(), out.known, place));
            if !is_held {
                turn.waiting.push(Reverse((Timestamp::EPOCH, seat.order, seat.ordinal)));
            }
        }
    }
}

/// Hands a URL out, unless it is out already.
fn give(url: CanonicalUrl, known: Slim, block: Option<Place>, out: &mut Out, drawn: &mut Drawn) {
    let (depth, revisit) = (known.depth(), known.due().is_some());
    if out.insert(&url, known, block) {
        drawn.urls.push(Scheduled { url, depth, revisit });
    }
}
