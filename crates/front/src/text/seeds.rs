//! What is said of a seed: what came of it, and what to do.

use super::{Locale, Texts, fill};
use farol_base::status::{SeedReport, SeedState};

/// What came of a seed and what to do, in English, for terminals and programs.
pub fn seed_sentence(report: &SeedReport) -> String {
    sentence(report, Locale::English.texts())
}

/// Where a seed leads, in English; `None` where it leads to no other host.
pub fn seed_moved(report: &SeedReport) -> Option<String> {
    moved(report, Locale::English.texts())
}

pub(crate) fn sentence(report: &SeedReport, texts: &Texts) -> String {
    fill(template(report.state, texts), &[("detail", &report.detail)])
}

pub(crate) fn moved(report: &SeedReport, texts: &Texts) -> Option<String> {
    let to = report.leads_to.as_ref().filter(|to| to.host() != report.url.host())?;
    Some(fill(texts.seed_moved, &[("to", to.as_str())]))
}

fn template(state: SeedState, texts: &Texts) -> &'static str {
    match state {
        SeedState::Waiting => texts.seed_waiting,
        SeedState::Fine => texts.seed_fine,
        SeedState::PrivateAddress => texts.seed_private_address,
        SeedState::NoSuchName => texts.seed_no_such_name,
        SeedState::NameTrouble => texts.seed_name_trouble,
        SeedState::Port => texts.seed_port,
        SeedState::Refused => texts.seed_refused,
        SeedState::Unreachable => texts.seed_unreachable,
        SeedState::TimedOut => texts.seed_timed_out,
        SeedState::Tls => texts.seed_tls,
        SeedState::NotHttp => texts.seed_not_http,
        SeedState::Robots => texts.seed_robots,
        SeedState::RobotsUnavailable => texts.seed_robots_unavailable,
        SeedState::SignIn => texts.seed_sign_in,
        SeedState::Forbidden => texts.seed_forbidden,
        SeedState::NotFound => texts.seed_not_found,
        SeedState::OtherStatus => texts.seed_other_status,
        SeedState::Busy => texts.seed_busy,
        SeedState::ServerError => texts.seed_server_error,
        SeedState::Removed => texts.seed_removed,
        SeedState::Excluded => texts.seed_excluded,
        SeedState::TooManyRedirects => texts.seed_too_many_redirects,
        SeedState::Elsewhere => texts.seed_elsewhere,
        SeedState::NotHtml => texts.seed_not_html,
        SeedState::NoIndex => texts.seed_no_index,
        SeedState::NoFollow => texts.seed_no_follow,
        SeedState::LinksOutside => texts.seed_links_outside,
        SeedState::NoLinks => texts.seed_no_links,
        SeedState::Empty => texts.seed_empty,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::CanonicalUrl;

    #[test]
    fn each_state_is_told_in_its_own_words_with_what_it_is_about() {
        let url = CanonicalUrl::parse("http://a.org/").unwrap();
        let told = |state| {
            let detail = "<detail>".to_string();
            seed_sentence(&SeedReport { url: url.clone(), leads_to: None, state, detail, at: None })
        };
        let all: std::collections::HashSet<String> = SeedState::ALL.into_iter().map(told).collect();
        assert_eq!(all.len(), SeedState::ALL.len());
        assert!(all.iter().all(|text| !text.contains('{')), "{all:?}");
        assert!(told(SeedState::PrivateAddress).contains("address <detail> is a private one"));
    }
}
