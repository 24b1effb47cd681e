//! Labels of failures, traps, visits and scopes, in words. A label that is not known is shown as it is.

use super::{Texts, fill};
use farol_base::status::ScopeReason;

/// Why a page is no part of a crawl.
pub(crate) fn scope_reason(reason: &ScopeReason, texts: &Texts) -> String {
    match reason {
        ScopeReason::Around(scope) => fill(texts.scope_around, &[("detail", scope)]),
        ScopeReason::Pattern(pattern) => fill(texts.scope_pattern, &[("detail", pattern)]),
        ScopeReason::NoPattern => texts.scope_no_pattern.to_string(),
        ScopeReason::View { wants, told } if told.is_empty() => fill(texts.scope_view, &[("detail", wants)]),
        ScopeReason::View { wants, told } => {
            fill(texts.scope_view_told, &[("detail", wants), ("told", told)])
        }
    }
}

/// What went wrong with a visit.
pub(crate) fn failure<'a>(label: &'a str, texts: &Texts) -> &'a str {
    match label {
        "dns" => texts.failure_dns,
        "dns_temporary" => texts.failure_dns_temporary,
        "guard" => texts.failure_guard,
        "port" => texts.failure_port,
        "no_room" => texts.failure_no_room,
        "connect" => texts.failure_connect,
        "tls" => texts.failure_tls,
        "timeout" => texts.failure_timeout,
        "head_too_large" => texts.failure_head_too_large,
        "protocol" => texts.failure_protocol,
        "closed" => texts.failure_closed,
        "unsendable" => texts.failure_unsendable,
        "server" => texts.failure_server,
        "broke_down" => texts.failure_broke_down,
        "no_right" => texts.failure_no_right,
        other => other,
    }
}

/// What a site without end looks like.
pub(crate) fn trap<'a>(label: &'a str, texts: &Texts) -> &'a str {
    match label {
        "too long" => texts.trap_too_long,
        "too deep" => texts.trap_too_deep,
        "repeats itself" => texts.trap_repeats,
        "too many parameters" => texts.trap_parameters,
        "host is full" => texts.trap_host_full,
        "calendar without end" => texts.trap_calendar,
        "the same page again" => texts.trap_same_page,
        "too many pages of one query" => texts.trap_alike,
        "maze without end" => texts.trap_maze,
        other => other,
    }
}

/// What came of a visit.
pub(crate) fn outcome<'a>(label: &'a str, texts: &Texts) -> &'a str {
    match label {
        "a page" | "indexed" => texts.outcome_page,
        "not for the index" => texts.outcome_not_indexed,
        "addresses" => texts.outcome_list,
        "redirect" => texts.outcome_redirect,
        "unchanged" => texts.outcome_unchanged,
        "gone" => texts.outcome_gone,
        "asked to wait" => texts.outcome_wait,
        "server error" => texts.failure_server,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Locale;

    #[test]
    fn every_label_has_its_words_in_every_locale() {
        for locale in Locale::ALL {
            let texts = locale.texts();
            let failures = "dns dns_temporary guard port no_room connect tls timeout head_too_large protocol closed \
                            unsendable server broke_down no_right";
            for label in failures.split(' ') {
                assert_ne!(failure(label, texts), label, "{locale:?}");
            }
            let reason = ScopeReason::View { wants: "lang:pt".into(), told: "ip:10.0.0.1".into() };
            let said = scope_reason(&reason, texts);
            assert!(said.contains("lang:pt") && said.contains("ip:10.0.0.1"), "{said}");
        }
        let english = Locale::English.texts();
        assert_eq!(
            (failure("new", english), trap("new", english), outcome("new", english)),
            ("new", "new", "new")
        );
    }
}
