//! Looks that only tell whether a page has changed.
//!
//! What is believed hangs on how often each interval was answered by *changed* and by *unchanged*, not on the order:
//! all such multisets of answers whose intervals fit into the time are listed once, with the likelihood of each rate.

use super::{Population, SearchEffort, Worth};
use std::collections::HashMap;

/// All answers that a page may have given.
pub struct PlainAnswers {
    /// By depth: no look, one look, ...
    states: Vec<State>,
    looks: usize,
}

struct State {
    looks: usize,
    /// By rate.
    likelihood: Vec<f64>,
    /// For each interval that still fits: the states after *unchanged* and *changed*.
    next: Vec<(u32, u32)>,
}

/// Sorted answers, 5 bits each: twice the number of the interval, 1 more where it had changed, and 1.
type Code = u64;

impl PlainAnswers {
    pub fn all(rates: &[f64], days: f64, effort: SearchEffort) -> PlainAnswers {
        assert!(effort.looks <= 12 && effort.intervals <= 15, "answers do not fit into their code");
        let length = |interval: usize| days * 0.5f64.powi(interval as i32);
        let mut numbers: HashMap<Code, u32> = HashMap::from([(0, 0)]);
        let mut states = vec![State { looks: 0, likelihood: vec![1.0; rates.len()], next: Vec::new() }];
        let mut codes: Vec<(Code, f64)> = vec![(0, 0.0)];
        let mut at = 0;
        while at < states.len() {
            let (code, used) = codes[at];
            let looks = states[at].looks;
            for interval in 0..effort.intervals {
                let after = used + length(interval);
                if looks == effort.looks || after > days * (1.0 + 1e-9) {
                    continue;
                }
                let reached = [false, true].map(|changed| {
                    let code = with(code, 2 * interval as u64 + u64::from(changed) + 1);
                    *numbers.entry(code).or_insert_with(|| {
                        let calm = |rate: &f64| (-rate * length(interval)).exp();
                        let one = |rate: &f64| if changed { 1.0 - calm(rate) } else { calm(rate) };
                        let before = states[at].likelihood.iter().zip(rates);
                        let likelihood = before.map(|(likelihood, rate)| likelihood * one(rate)).collect();
                        states.push(State { looks: looks + 1, likelihood, next: Vec::new() });
                        codes.push((code, after));
                        states.len() as u32 - 1
                    })
                });
                states[at].next.push((reached[0], reached[1]));
            }
            at += 1;
        }
        PlainAnswers { states, looks: effort.looks }
    }

    /// What all kinds of pages yield in the end, net of the price of visits then and of looks, by the price of a look.
    /// `knowing` is told the rate after the last look.
    pub fn learner<'a>(
        &'a self,
        kinds: &[Population],
        worth: &Worth,
        knowing: bool,
    ) -> impl Fn(f64) -> f64 + use<'a> {
        // By kind and state: what it is worth to stop, and how many pages there are.
        let stop = |kind: &Population, state: &State| {
            let pages: Vec<f64> = kind.iter().zip(&state.likelihood).map(|(pages, l)| pages * l).collect();
            let told = knowing && state.looks == self.looks;
            (if told { worth.told(&pages) } else { worth.of(&pages) }, pages.iter().sum::<f64>())
        };
        let stops: Vec<Vec<(f64, f64)>> =
            kinds.iter().map(|kind| self.states.iter().map(|state| stop(kind, state)).collect()).collect();
        move |look| stops.iter().map(|stops| self.first(stops, look)).sum()
    }

    /// The first visit tells nothing but is paid for.
    fn first(&self, stops: &[(f64, f64)], look: f64) -> f64 {
        let mut values = vec![0.0; stops.len()];
        for (at, state) in self.states.iter().enumerate().rev() {
            let (stop, pages) = stops[at];
            let after = |(calm, changed): &(u32, u32)| values[*calm as usize] + values[*changed as usize];
            values[at] = state.next.iter().map(|next| after(next) - look * pages).fold(stop, f64::max);
        }
        (values[0] - look * stops[0].1).max(stops[0].0)
    }
}

/// Adds an answer to sorted ones.
fn with(code: Code, answer: u64) -> Code {
    let (mut low, mut shift) = (0, 0);
    let mut rest = code;
    while rest & 31 > answer {
        low |= (rest & 31) << shift;
        shift += 5;
        rest >>= 5;
    }
    (((rest << 5) | answer) << shift) | low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_sorted_whatever_their_order() {
        let code = |answers: &[u64]| answers.iter().fold(0, |code, answer| with(code, *answer));
        assert_eq!(code(&[3, 1, 2, 3]), code(&[3, 3, 2, 1]));
        assert_eq!(code(&[1, 2]), code(&[2, 1]));
        assert_ne!(code(&[1, 2]), code(&[2, 2]));
    }
}
