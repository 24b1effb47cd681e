//! The logs there are, and where they live: streams, subjects and limits.

use std::fmt;

/// A log: who reads it is in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// Changed documents of a shard, for all its replicas.
    Docs(u32),
    /// Links of fetched pages, for the ranker.
    Links,
    /// URLs that belong to another agent, for that agent.
    Urls(u16),
    /// Hosts that change hands, for the agent that takes them over.
    Parcels(u16),
}

/// Not the name of a topic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no topic; topics are docs-SHARD, links, urls-NODE and parcels-NODE")]
pub struct TopicError(String);

/// What a stream may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Bytes of the whole stream.
    pub bytes_max: u64,
    /// Batches of each topic in it, so that one slow receiver does not fill what others share; `None` for no limit.
    pub batches_max: Option<u64>,
}

/// Batches that wait for one agent, of each kind: at 256 KiB each 1 GiB, at the usual 20 KB 80 MB.
pub const AGENT_BATCHES_MAX: u64 = 4096;

impl Topic {
    /// The stream that holds it, in the cluster of that name. A shard has its own, so that leaders spread over servers.
    pub fn stream(&self, cluster: &str) -> String {
        match self {
            Topic::Docs(shard) => format!("FAROL_{cluster}_DOCS_{shard}"),
            Topic::Links => format!("FAROL_{cluster}_LINKS"),
            Topic::Urls(_) => format!("FAROL_{cluster}_URLS"),
            Topic::Parcels(_) => format!("FAROL_{cluster}_PARCELS"),
        }
    }

    /// Its subject in that stream.
    pub fn subject(&self, cluster: &str) -> String {
        match self {
            Topic::Docs(shard) => format!("farol.{cluster}.docs.{shard}"),
            Topic::Links => format!("farol.{cluster}.links"),
            Topic::Urls(node) => format!("farol.{cluster}.urls.{node}"),
            Topic::Parcels(node) => format!("farol.{cluster}.parcels.{node}"),
        }
    }

    /// Every subject of its stream.
    pub fn stream_subjects(&self, cluster: &str) -> String {
        match self {
            Topic::Docs(_) | Topic::Links => self.subject(cluster),
            Topic::Urls(_) => format!("farol.{cluster}.urls.*"),
            Topic::Parcels(_) => format!("farol.{cluster}.parcels.*"),
        }
    }

    /// Limits of its stream, where a log may have `log_bytes_max`.
    pub fn limits(&self, log_bytes_max: u64) -> LogLimits {
        let batches_max = match self {
            Topic::Docs(_) | Topic::Links => None,
            Topic::Urls(_) | Topic::Parcels(_) => Some(AGENT_BATCHES_MAX),
        };
        LogLimits { bytes_max: log_bytes_max, batches_max }
    }

    /// Reads what [`fmt::Display`] writes.
    ///
    /// # Errors
    ///
    /// Where the text names no topic, or not in the one way there is to write it.
    pub fn parse(text: &str) -> Result<Topic, TopicError> {
        let (kind, number) = text.split_once('-').unwrap_or((text, ""));
        let topic = match kind {
            "docs" => number.parse().map(Topic::Docs).ok(),
            "links" => Some(Topic::Links),
            "urls" => number.parse().map(Topic::Urls).ok(),
            "parcels" => number.parse().map(Topic::Parcels).ok(),
            _ => None,
        };
        topic.filter(|topic| topic.to_string() == text).ok_or_else(|| TopicError(text.to_string()))
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Topic::Docs(shard) => write!(f, "docs-{shard}"),
            Topic::Links => write!(f, "links"),
            Topic::Urls(node) => write!(f, "urls-{node}"),
            Topic::Parcels(node) => write!(f, "parcels-{node}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Topic; 5] =
        [Topic::Docs(0), Topic::Docs(u32::MAX), Topic::Links, Topic::Urls(7), Topic::Parcels(u16::MAX)];

    #[test]
    fn a_name_is_read_back() {
        for topic in ALL {
            assert_eq!(Topic::parse(&topic.to_string()), Ok(topic));
        }
        for wrong in
            ["", "docs", "docs-", "docs-x", "docs-01", "docs-+1", "links-", "links-1", "urls-65536", "beat-1"]
        {
            assert!(Topic::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_stream_takes_its_topics_subject_and_no_other_streams() {
        let takes = |pattern: &str, subject: &str| match pattern.strip_suffix('*') {
            Some(beginning) => subject.strip_prefix(beginning).is_some_and(|rest| !rest.contains('.')),
            None => pattern == subject,
        };
        for holder in ALL {
            for topic in ALL {
                let same = holder.stream("c") == topic.stream("c");
                assert_eq!(
                    takes(&holder.stream_subjects("c"), &topic.subject("c")),
                    same,
                    "{holder} {topic}"
                );
            }
        }
    }

    #[test]
    fn only_agents_logs_count_batches() {
        assert_eq!(Topic::Links.limits(9), LogLimits { bytes_max: 9, batches_max: None });
        assert_eq!(Topic::Urls(1).limits(9), LogLimits { bytes_max: 9, batches_max: Some(4096) });
    }
}
