//! What an operator decides about the pages.

use std::time::Duration;

/// How the front presents itself and whom it lets in.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The engine's name, shown on every page.
    pub name: String,
    /// Who runs it, shown on the about page.
    pub operator: String,
    /// How to reach them: an e-mail address or an http(s) URL, shown on the about page; may be empty.
    pub contact: String,
    /// What the crawler sends as `User-Agent`.
    pub user_agent: String,
    /// Where people reach this engine (`https://search.example.org`), where that is not the listening address.
    pub public_url: Option<String>,
    /// Other names under which people reach it. Requests for names that are not ours are refused.
    pub names: Vec<String>,
    /// The secret that opens the admin pages, at least [`crate::TOKEN_BYTES_MIN`] bytes. Without one nobody opens them.
    pub admin_token: Option<String>,
    /// Questions, suggestions (a tenth each) and stored copies that one client may ask for per minute; as many
    /// may come at once. 0 means no limit.
    pub rate_per_minute: u32,
    /// The client's address is the last one in `X-Forwarded-For`: only behind a proxy that writes it.
    pub trust_forwarded: bool,
    /// Hits on a results page; 1 to 50.
    pub results_per_page: usize,
    /// Browsers tell us which results are opened ([`crate::Engine::clicked`]).
    pub clicks: bool,
    /// No crawler runs in this process: what only a crawler does is not offered. Pages can be removed all the same.
    pub admin_read_only: bool,
    /// Connections of visitors at a time; never more than [`crate::CONNECTIONS_MAX`].
    pub connections_max: usize,
    /// How long the engine may take to answer one call before the asker is told that it is busy.
    pub deadline: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            name: "Farol".into(),
            operator: String::new(),
            contact: String::new(),
            user_agent: concat!("Farol/", env!("CARGO_PKG_VERSION")).into(),
            public_url: None,
            names: Vec::new(),
            admin_token: None,
            rate_per_minute: 240,
            trust_forwarded: false,
            results_per_page: 10,
            clicks: false,
            admin_read_only: false,
            connections_max: crate::CONNECTIONS_MAX,
            deadline: Duration::from_secs(5),
        }
    }
}

impl Settings {
    /// The name that robots.txt groups address: the user agent up to its version.
    pub fn robots_name(&self) -> &str {
        let end = self.user_agent.find(|c: char| !(c.is_ascii_alphabetic() || c == '-' || c == '_'));
        match &self.user_agent[..end.unwrap_or(self.user_agent.len())] {
            "" => "*",
            name => name,
        }
    }

    /// Host name, with port where one is written, of [`Settings::public_url`].
    pub fn public_authority(&self) -> Option<&str> {
        let rest = self.public_url.as_deref()?.split_once("://")?.1;
        Some(rest.split(['/', '?', '#']).next().unwrap_or(rest))
    }

    /// Whether people reach this engine by TLS.
    pub fn public_is_tls(&self) -> bool {
        self.public_url.as_deref().is_some_and(|url| url.starts_with("https://"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_robots_name_is_the_user_agents_first_word() {
        let check = |agent: &str, want: &str| {
            let settings = Settings { user_agent: agent.into(), ..Settings::default() };
            assert_eq!(settings.robots_name(), want, "{agent}");
        };
        check("Farol/0.1 (+https://x.test/about)", "Farol");
        check("Our-Bot_x", "Our-Bot_x");
        check("9lives", "*");
        check("", "*");
    }

    #[test]
    fn the_public_authority_is_read_from_the_url() {
        let check = |url: &str, want: Option<&str>| {
            let settings = Settings { public_url: Some(url.into()), ..Settings::default() };
            assert_eq!(settings.public_authority(), want, "{url}");
        };
        check("https://search.example.org/", Some("search.example.org"));
        check("http://h:8080", Some("h:8080"));
        check("search.example.org", None);
    }
}
