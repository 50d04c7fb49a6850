//! A secret that a caller must bring, from a file.

use std::{fmt, fs, io, path::Path};

use sha2::{Digest, Sha256};

/// Shorter ones can be guessed.
const SHORTEST: usize = 16;

/// The secret; only its digest is kept, and nothing of it is ever shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

/// Why a file holds no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It cannot be read.
    #[error("cannot read the token file {path}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It can be guessed, or sent in no header.
    #[error(
        "the token in {path} must have at least {SHORTEST} characters, all of them printable ASCII without spaces"
    )]
    Unfit {
        /// The file.
        path: String,
    },
}

impl Token {
    /// The token in a file, for a server.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        Ok(Self::of(&read_secret(path)?))
    }

    pub(crate) fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret).into())
    }

    /// Whether an `Authorization` header brings it.
    #[must_use]
    pub fn is_brought_by(&self, header: &str) -> bool {
        let secret =
            header.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        // Digests are compared, so the time that it takes says nothing about the token.
        secret.is_some_and(|(_, secret)| Self::of(secret.trim()) == *self)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The secret in a file, for a client.
pub fn read_secret(path: &Path) -> Result<String, TokenError> {
    let shown = || path.display().to_string();
    let text = fs::read_to_string(path)
        .map_err(|source| TokenError::Unreadable { path: shown(), source })?;
    let secret = text.trim();
    match secret.len() >= SHORTEST && secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(secret.to_owned()),
        false => Err(TokenError::Unfit { path: shown() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_let_in() {
        let token = Token::of("correct-horse-battery");
        assert!(token.is_brought_by("Bearer correct-horse-battery"));
        assert!(token.is_brought_by("bearer  correct-horse-battery"));
        for header in
            ["", "Bearer", "Bearer ", "Bearer correct-horse", "Basic correct-horse-battery"]
        {
            assert!(!token.is_brought_by(header), "{header}");
        }
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn a_file_without_a_fit_token_is_refused_by_name_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert!(matches!(read_secret(&path), Err(TokenError::Unreadable { .. })));
        for text in ["", "short\n", "with spaces in between it", "käse-käse-käse-käse"] {
            fs::write(&path, text).unwrap();
            let refused = read_secret(&path).unwrap_err().to_string();
            assert!(refused.contains("16 characters") && refused.contains("token"), "{refused}");
            assert!(text.trim().is_empty() || !refused.contains(text.trim()), "{refused}");
        }
        fs::write(&path, "correct-horse-battery\n").unwrap();
        assert_eq!(read_secret(&path).unwrap(), "correct-horse-battery");
    }
}
