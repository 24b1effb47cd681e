//! Few links between agents: every link to another agent's server is a URL that must be sent.

use super::{Objective, Terms};
use crate::{Error, Space};

/// Links between servers, undirected, by how often they occur (decision D-21).
#[derive(Clone, Copy, Debug, Default)]
pub struct Links;

impl Objective for Links {
    fn name(&self) -> &'static str {
        "links"
    }

    fn terms(&self, space: &Space) -> Result<Terms, Error> {
        let vertices = space.servers.len();
        let edge = |(a, b, links): &(u32, u32, u32)| {
            let most = (*a).max(*b);
            if (most as usize) < vertices {
                Ok((*a, *b, f64::from(*links)))
            } else {
                Err(Error::NoVertex { vertex: u64::from(most), vertices })
            }
        };
        Ok(Terms { edges: space.links.iter().map(edge).collect::<Result<_, _>>()?, affinities: Vec::new() })
    }
}
