//! The key of an engine: `federation/key` in its data folder, drawn once. Whoever has it is the engine.

use anyhow::{Context, Result};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use farol_federation::agreement::EngineId;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// What stands before the 64 hexadecimal digits of the seed.
const MARKER: &str = "farol engine key, ed25519 seed ";

/// An engine's key.
pub struct EngineKey {
    pair: Ed25519KeyPair,
    seed: [u8; 32],
    id: EngineId,
}

impl EngineKey {
    /// The key of this seed.
    pub fn of_seed(seed: [u8; 32]) -> Result<EngineKey> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed)
            .map_err(|_| anyhow::anyhow!("the engine's key is no ed25519 key"))?;
        let mut id = [0; 32];
        id.copy_from_slice(pair.public_key().as_ref());
        Ok(EngineKey { pair, seed, id: EngineId(id) })
    }

    /// Reads the folder's key, and draws it where there is none.
    pub fn read_or_draw(folder: &Path) -> Result<EngineKey> {
        let path = path(folder);
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let seed = text.strip_prefix(MARKER).and_then(|hex| read_hex(hex.trim()));
                EngineKey::of_seed(seed.with_context(|| {
                    format!(
                        "{} holds no key; put the right file back, or delete it to become another engine",
                        path.display()
                    )
                })?)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => draw(&path),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Who it is.
    pub fn id(&self) -> EngineId {
        self.id
    }

    /// Signs bytes.
    pub fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.pair.sign(bytes).as_ref());
        signature
    }

    /// The key as TLS wants it: PKCS #8, RFC 8410.
    pub fn pkcs8(&self) -> Vec<u8> {
        let mut der = vec![0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        der.extend(self.seed);
        der
    }
}

/// Whether an engine signed these bytes.
pub fn verify(engine: EngineId, bytes: &[u8], signature: &[u8; 64]) -> bool {
    UnparsedPublicKey::new(&ED25519, engine.0).verify(bytes, signature).is_ok()
}

fn path(folder: &Path) -> PathBuf {
    folder.join("federation").join("key")
}

fn draw(path: &Path) -> Result<EngineKey> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).context("the system has no random numbers")?;
    let write = || -> std::io::Result<()> {
        if let Some(dir) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let hex: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(file, "{MARKER}{hex}")?;
        file.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
    EngineKey::of_seed(seed)
}

fn read_hex(hex: &str) -> Option<[u8; 32]> {
    let mut seed = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (byte, digits) in seed.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(seed)
}
