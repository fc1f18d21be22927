//! The secret that a consensus client and its node share, and the tokens that it signs: JWT by HMAC with SHA-256 (RFC 7519, HS256).

use crate::{durable::failed, error::NodeError};
use alloy_primitives::hex;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac as _};
use serde::Deserialize;
use sha2::Sha256;
use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// Seconds by which the clocks of client and node may differ.
const TOLERANCE: f64 = 60.0;

/// Maximum length of a token, in bytes: it is a header of every request.
const MOST: usize = 4 << 10;

/// Reason for which a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("The request has no bearer token: the consensus client needs the file of --jwt.\n")]
    Missing,
    #[error("The token is none of HS256 with a time of issue.\n")]
    Malformed,
    #[error("The token is signed with another secret.\n")]
    Signature,
    #[error("The token was not issued within a minute: compare the clocks of client and node.\n")]
    Time,
}

/// A secret of 256 bits.
#[derive(Clone)]
pub(crate) struct Secret([u8; 32]);

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

#[derive(Deserialize)]
struct Head {
    alg: String,
}

#[derive(Deserialize)]
struct Claims {
    /// Seconds since 1970, which may have a fraction (RFC 7519, `NumericDate`).
    iat: f64,
}

impl Secret {
    /// Reads the secret from a file, as 64 hexadecimal digits. A file that is not there is made, for its owner alone.
    ///
    /// # Errors
    /// The file has no secret, or cannot be read or made.
    pub(crate) fn open(path: &Path) -> Result<Self, NodeError> {
        match fs::read_to_string(path) {
            Ok(text) => {
                let text = text.trim();
                let digits = text.strip_prefix("0x").unwrap_or(text);
                let secret = hex::decode(digits).ok().and_then(|bytes| bytes.try_into().ok());
                secret
                    .map(Self)
                    .ok_or_else(|| failed(path, &"64 hexadecimal digits are expected, a secret of 256 bits"))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Self::make(path),
            Err(error) => Err(failed(path, &error)),
        }
    }

    fn make(path: &Path) -> Result<Self, NodeError> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| failed(path, &error))?;
        let write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(hex::encode(secret).as_bytes())?;
            file.sync_all()
        };
        write().map_err(|error| failed(path, &error))?;
        Ok(Self(secret))
    }

    /// Checks the value of a header `Authorization` at a time, in seconds since 1970.
    ///
    /// # Errors
    /// The reason for which the request is refused.
    pub(crate) fn check(&self, authorization: Option<&str>, now: u64) -> Result<(), Refused> {
        let token = authorization.and_then(|value| value.strip_prefix("Bearer ")).ok_or(Refused::Missing)?;
        let token = Some(token).filter(|token| token.len() <= MOST).ok_or(Refused::Malformed)?;
        let (signed, signature) = token.rsplit_once('.').ok_or(Refused::Malformed)?;
        let (head, claims) = signed.split_once('.').ok_or(Refused::Malformed)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| Refused::Malformed);
        let head: Head = serde_json::from_slice(&decode(head)?).map_err(|_| Refused::Malformed)?;
        if head.alg != "HS256" {
            return Err(Refused::Malformed);
        }
        let mut mac = self.mac();
        mac.update(signed.as_bytes());
        // The comparison takes the same time wherever the first difference is.
        mac.verify_slice(&decode(signature)?).map_err(|_| Refused::Signature)?;
        let claims: Claims = serde_json::from_slice(&decode(claims)?).map_err(|_| Refused::Malformed)?;
        if (claims.iat - now as f64).abs() > TOLERANCE { Err(Refused::Time) } else { Ok(()) }
    }

    fn mac(&self) -> Hmac<Sha256> {
        Hmac::new_from_slice(&self.0).expect("HMAC takes keys of any length")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const NOW: u64 = 1_790_000_000;

    fn token(secret: &Secret, head: &str, claims: &str) -> String {
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(claims));
        let mut mac = secret.mac();
        mac.update(signed.as_bytes());
        format!("Bearer {signed}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }

    #[test]
    fn only_fresh_tokens_of_the_secret_are_taken() {
        let (secret, other) = (Secret([7; 32]), Secret([8; 32]));
        let head = r#"{"typ":"JWT","alg":"HS256"}"#;
        let at = |iat: u64| token(&secret, head, &format!(r#"{{"iat":{iat},"id":"a client","more":[1]}}"#));
        for iat in [NOW - 60, NOW, NOW + 60] {
            assert_eq!(secret.check(Some(&at(iat)), NOW), Ok(()), "{iat}");
        }
        for iat in [0, NOW - 61, NOW + 61, u64::MAX] {
            assert_eq!(secret.check(Some(&at(iat)), NOW), Err(Refused::Time), "{iat}");
        }
        let written = |iat: &str| secret.check(Some(&token(&secret, head, &format!(r#"{{"iat":{iat}}}"#))), NOW);
        for iat in [format!("{NOW}.75"), format!("{}.5", NOW - 60), "1.79e9".into()] {
            assert_eq!(written(&iat), Ok(()), "{iat}");
        }
        for iat in [format!("{}.5", NOW + 60), "-1".into(), "1e300".into()] {
            assert_eq!(written(&iat), Err(Refused::Time), "{iat}");
        }
        assert_eq!(other.check(Some(&at(NOW)), NOW), Err(Refused::Signature));
        for none in [None, Some(""), Some("Basic YTpi"), Some("bearer x")] {
            assert_eq!(secret.check(none, NOW), Err(Refused::Missing), "{none:?}");
        }
        let claims = format!(r#"{{"iat":{NOW}}}"#);
        for (head, claims) in [
            (r#"{"alg":"none"}"#, &claims[..]),
            (r#"{"alg":"HS512"}"#, &claims),
            ("{}", &claims),
            ("", &claims),
            (head, "{}"),
            (head, r#"{"iat":"now"}"#),
            (head, r#"{"iat":1e999}"#),
        ] {
            let refused = secret.check(Some(&token(&secret, head, claims)), NOW);
            assert_eq!(refused, Err(Refused::Malformed), "{head} {claims}");
        }
        let sound = at(NOW);
        for (place, _) in sound.char_indices().skip("Bearer ".len()) {
            let mut text = sound.clone().into_bytes();
            text[place] = if text[place] == b'A' { b'B' } else { b'A' };
            let text = String::from_utf8(text).expect("text");
            // The last digit of a part has bits that mean nothing, and must be zero.
            assert!(secret.check(Some(&text), NOW).is_err(), "{place}");
            assert!(secret.check(Some(&sound[..place]), NOW).is_err(), "{place}");
        }
        assert_eq!(secret.check(Some(&format!("Bearer {}", "a".repeat(MOST + 1))), NOW), Err(Refused::Malformed));
    }

    #[test]
    fn a_file_is_made_once_for_its_owner_and_wrong_ones_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("jwt.hex");
        let made = Secret::open(&path).expect("made");
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        assert_eq!(Secret::open(&path).expect("read").0, made.0);
        fs::write(&path, format!("0x{}\n", hex::encode(made.0))).expect("written");
        assert_eq!(Secret::open(&path).expect("read").0, made.0, "with a prefix and an end of line");
        for wrong in ["", "00", &"0".repeat(63), &"0".repeat(66), &"g".repeat(64)] {
            fs::write(&path, wrong).expect("written");
            assert!(Secret::open(&path).expect_err("no secret").to_string().contains("jwt.hex"), "{wrong}");
        }
        assert!(Secret::open(&folder.path().join("no/folder")).is_err());
    }
}
