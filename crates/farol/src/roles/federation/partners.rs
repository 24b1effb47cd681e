//! The other engines that this one knows, kept in a table.

use crate::fabric::{Table, Tables};
use crate::federation::call::EngineAddress;
use anyhow::{Context, Result};
use farol_base::Timestamp;
use farol_federation::agreement::EngineId;
use farol_federation::message::Card;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Engines that may introduce themselves without having been joined.
const STRANGERS_MAX: usize = 100;

/// Another engine.
#[derive(Clone, Debug)]
pub struct Partner {
    pub card: Card,
    /// Where it was found: as the operator named it, or as it says itself.
    pub address: String,
    pub behind_proxy: bool,
    /// The operator has joined it.
    pub is_confirmed: bool,
    pub heard: Option<Timestamp>,
    /// Why it could not be reached last.
    pub trouble: String,
}

#[derive(Serialize, Deserialize)]
struct PartnerRow {
    card: String,
    address: String,
    behind_proxy: bool,
    is_confirmed: bool,
}

impl Partner {
    /// How it is called.
    pub fn line(&self, id: EngineId) -> EngineAddress {
        EngineAddress { url: self.address.clone(), engine: Some(id), behind_proxy: self.behind_proxy }
    }

    /// As it is kept.
    pub fn row(&self) -> Result<Vec<u8>> {
        Ok(serde_json::to_vec(&PartnerRow {
            card: self.card.to_json(),
            address: self.address.clone(),
            behind_proxy: self.behind_proxy,
            is_confirmed: self.is_confirmed,
        })?)
    }

    fn read(bytes: &[u8]) -> Result<Partner> {
        let row: PartnerRow = serde_json::from_slice(bytes)?;
        Ok(Partner {
            card: Card::from_json(row.card.as_bytes())?,
            address: row.address,
            behind_proxy: row.behind_proxy,
            is_confirmed: row.is_confirmed,
            heard: None,
            trouble: String::new(),
        })
    }
}

/// Reads all of them.
pub fn read_all(tables: &dyn Tables) -> Result<BTreeMap<EngineId, Partner>> {
    let rows = tables.scan(Table::Partners)?;
    rows.into_iter()
        .map(|(id, row)| {
            let partner = Partner::read(&row).with_context(|| format!("the partner {id} cannot be read"))?;
            Ok((id.parse()?, partner))
        })
        .collect()
}

/// Whether one more engine that nobody joined may introduce itself.
pub fn has_room(partners: &BTreeMap<EngineId, Partner>) -> bool {
    partners.values().filter(|partner| !partner.is_confirmed).count() < STRANGERS_MAX
}

/// The engine that somebody means: by its key, how that begins, or its name.
pub fn find(partners: &BTreeMap<EngineId, Partner>, text: &str) -> Result<EngineId, String> {
    let text = text.trim();
    if let Ok(id) = text.parse::<EngineId>() {
        return match partners.contains_key(&id) {
            true => Ok(id),
            false => Err(format!("{id} is not known here; join it first: `farol federation join ADDRESS`")),
        };
    }
    let begins = |id: &EngineId| {
        let id = id.to_string();
        id.starts_with(text) || id.strip_prefix("farol:").is_some_and(|letters| letters.starts_with(text))
    };
    let named = |partner: &Partner| partner.card.name.eq_ignore_ascii_case(text);
    let found: Vec<EngineId> = partners
        .iter()
        .filter(|(id, partner)| !text.is_empty() && (named(partner) || begins(id)))
        .map(|(id, _)| *id)
        .collect();
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(format!(
            "no engine is known as {text:?}; `farol federation partners` lists those that are, `farol federation join \
             ADDRESS` adds one"
        )),
        _ => Err(format!("{} engines are known as {text:?}; name one by its key", found.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_federation::View;

    #[test]
    fn an_engine_is_found_by_key_and_name() {
        let partner = |name: &str| Partner {
            card: Card {
                name: name.to_string(),
                address: "https://a.example".into(),
                behind_proxy: false,
                view: View::all(),
                agent: String::new(),
                contact: String::new(),
            },
            address: "https://a.example".into(),
            behind_proxy: false,
            is_confirmed: false,
            heard: None,
            trouble: String::new(),
        };
        let ids = [EngineId([1; 32]), EngineId([0xff; 32]), EngineId([3; 32])];
        let partners: BTreeMap<EngineId, Partner> =
            ids.into_iter().zip(["Praia", "Serra", "Serra"].map(partner)).collect();
        assert_eq!(find(&partners, "praia"), Ok(ids[0]));
        assert_eq!(find(&partners, &ids[1].to_string()), Ok(ids[1]));
        assert_eq!(find(&partners, &ids[1].to_string()[..12]), Ok(ids[1]));
        assert!(find(&partners, "serra").unwrap_err().contains("2 engines"));
        assert!(find(&partners, "").unwrap_err().contains("no engine"));
        assert!(find(&partners, &EngineId([9; 32]).to_string()).unwrap_err().contains("join it first"));
        let row = partners[&ids[0]].row().unwrap();
        assert_eq!(Partner::read(&row).unwrap().card, partners[&ids[0]].card);
    }
}
