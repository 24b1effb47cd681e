//! How engines and agreements are written: `farol:` and 52 letters and digits, and 32 hexadecimal digits.

use super::terms::{AgreementId, EngineId};
use crate::message::MessageError;
use data_encoding::{BASE32_NOPAD, HEXLOWER};
use std::fmt;
use std::str::FromStr;

const PREFIX: &str = "farol:";

impl fmt::Display for EngineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", BASE32_NOPAD.encode(&self.0).to_ascii_lowercase())
    }
}

impl FromStr for EngineId {
    type Err = MessageError;

    fn from_str(text: &str) -> Result<EngineId, MessageError> {
        let wrong =
            || MessageError(format!("{text:?} names no engine: that is {PREFIX} and 52 letters and digits"));
        let letters = text.strip_prefix(PREFIX).filter(|letters| letters.len() == 52).ok_or_else(wrong)?;
        let bytes = BASE32_NOPAD.decode(letters.to_ascii_uppercase().as_bytes()).map_err(|_| wrong())?;
        Ok(EngineId(bytes.try_into().map_err(|_| wrong())?))
    }
}

impl fmt::Display for AgreementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl FromStr for AgreementId {
    type Err = MessageError;

    fn from_str(text: &str) -> Result<AgreementId, MessageError> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        let wrong = || MessageError(format!("{text:?} names no agreement: that is 32 hexadecimal digits"));
        bytes.map(AgreementId).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_written_as_its_key() {
        let key = data_encoding::HEXLOWER
            .decode(b"03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8")
            .unwrap();
        let id = EngineId(key.try_into().unwrap());
        assert_eq!(id.to_string(), "farol:aoqqpp7tzyil4hlq3umoos6atft6jvrqtosq2xy53sdgiesvgg4a");
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "farol:", "faro:aoqq", &id.to_string().to_ascii_uppercase(), &format!("{id}a")] {
            assert!(wrong.parse::<EngineId>().is_err(), "{wrong}");
        }
        let id = AgreementId([0xab; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("ab".parse::<AgreementId>().is_err());
    }
}
