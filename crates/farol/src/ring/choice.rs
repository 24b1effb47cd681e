//! Which rules fronts and leader of the cache service go by, as the settings have it: ours, those of \[Gomez14\], or the
//! ring alone.

use crate::config::{Cache, CacheRules};
use farol_cache::balance::by_name;
use farol_cache::failover::FailoverCopies;
use farol_cache::front::FrontRules;
use farol_cache::lead::LeaderRules;

/// What a front goes by.
pub fn front_rules(cache: &Cache) -> FrontRules {
    match cache.rules {
        CacheRules::Ours => FrontRules::ours(),
        CacheRules::Thesis => FrontRules::thesis(),
        CacheRules::Off => FrontRules::plain(),
    }
}

/// What the leader decides by.
pub fn leader_rules(cache: &Cache) -> LeaderRules {
    let mut rules = match cache.rules {
        CacheRules::Ours => LeaderRules::ours(),
        CacheRules::Thesis => LeaderRules::thesis(),
        CacheRules::Off => LeaderRules::default(),
    };
    if let (Some(balance), Some(balancer)) = (&mut rules.balance, by_name(balancer(cache))) {
        balance.balancer = balancer;
    }
    rules
}

/// The name of the algorithm that moves borders.
fn balancer(cache: &Cache) -> &str {
    match (cache.balancer.as_str(), cache.rules) {
        ("", CacheRules::Thesis) => "rid",
        ("", _) => "spread",
        (name, _) => name,
    }
}

/// How a node copies its best answers; `None` where it does not.
pub fn failover(cache: &Cache) -> Option<FailoverCopies> {
    let (share, every) = (cache.copies, cache.copies_every.get());
    let best = match cache.rules {
        CacheRules::Thesis => FailoverCopies::thesis(),
        CacheRules::Ours | CacheRules::Off => FailoverCopies::default(),
    };
    (share > 0.0).then_some(FailoverCopies { share, every, ..best })
}

/// The rules in words, for people.
pub fn told(cache: &Cache) -> String {
    match cache.rules {
        CacheRules::Off => "off".to_string(),
        CacheRules::Ours => format!("ours, borders by {}", balancer(cache)),
        CacheRules::Thesis => format!("thesis, borders by {}", balancer(cache)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use farol_cache::failover::Best;

    #[test]
    fn rules_and_balancer_are_chosen_by_name() {
        let chosen = |text: &str| {
            let cache = Config::parse(&format!("[cache]\n{text}")).unwrap().cache;
            let rules = leader_rules(&cache);
            let named = rules.balance.as_ref().map(|balance| balance.balancer.name());
            (named, rules.hot.is_some(), front_rules(&cache).give_at_once, told(&cache))
        };
        assert_eq!(chosen(""), (Some("SPREAD"), true, true, "ours, borders by spread".to_string()));
        let thesis = (Some("RID"), true, false, "thesis, borders by rid".to_string());
        assert_eq!(chosen("rules = 'thesis'"), thesis);
        for (name, shown) in
            [("sid", "SID"), ("gm", "GM"), ("dm", "DM"), ("dem", "DEM"), ("gde", "GDE"), ("rid", "RID")]
        {
            assert_eq!(chosen(&format!("rules = 'thesis'\nbalancer = '{name}'")).0, Some(shown));
            assert_eq!(chosen(&format!("balancer = '{name}'")).0, Some(shown));
        }
        assert_eq!(chosen("rules = 'off'\nbalancer = 'gm'"), (None, false, false, "off".to_string()));
        let error = Config::parse("[cache]\nbalancer = 'best'").unwrap_err().to_string();
        assert!(error.contains("cache.balancer is \"best\"") && error.contains("spread"), "{error}");
        assert!(Config::parse("[cache]\nrules = 'none'").is_err());
        let copies = |text: &str| failover(&Config::parse(&format!("[cache]\n{text}")).unwrap().cache);
        assert_eq!(copies("rules = 'thesis'").map(|copies| copies.best), Some(Best::ByPolicy));
        assert_eq!(copies("").map(|copies| copies.best), Some(Best::Proven));
        assert_eq!(copies("copies = 0.0"), None);
    }
}
