//! What can go wrong: always a wrong input, told in one sentence.

/// Why a question cannot be answered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("an edge leads to vertex {vertex}, but there are only {vertices} vertices")]
    NoVertex { vertex: u64, vertices: usize },
    #[error("there is no agent; name at least one")]
    NoAgents,
    #[error("{given} values of {what} were given for {wanted}; give one for each")]
    Count { what: &'static str, given: usize, wanted: usize },
    #[error("the {what} of {whose} is {value}, which is no number that can be used; give a number above 0")]
    Number { what: &'static str, whose: String, value: f64 },
    #[error("{what} names part {part}, but there are only {parts} parts")]
    NoPart { what: &'static str, part: u32, parts: usize },
    #[error("{0} is no address block, such as 192.0.2.0/24")]
    Block(String),
    #[error("line {line}: {what}")]
    Line { line: usize, what: String },
    #[error("the routing table is damaged: {0}")]
    Table(&'static str),
    #[error("the routing table has format {found}, this version reads format {known}")]
    Format { found: u32, known: u32 },
    #[error("what the planner remembered is damaged: {0}")]
    Memory(&'static str),
    #[error(
        "the rule that gives {0} cannot be kept; name a domain, a block, a country or a language, and an agent"
    )]
    Rule(String),
    #[error("the LOC record is wrong: {0}")]
    Loc(&'static str),
    #[error("there is no entity {0}")]
    NoEntity(String),
    #[error("there is an entity {0} already; choose another name")]
    Twice(String),
    #[error("{0}")]
    Tree(String),
}
