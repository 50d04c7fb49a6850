//! The messages of the Postgres protocol, as far as they are told apart here.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// What a client sends first when it wants TLS.
const TLS_REQUEST: i32 = 80_877_103;
/// Fails as a statement does that was cancelled.
const CANCELLED: &str = "DO $$ BEGIN RAISE query_canceled; END $$";
const UNKNOWN: &str = "of nobody";

/// One message, either way: a letter, the length of the rest, the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub fn new(letter: u8, body: &[u8]) -> Self {
        let length = u32::try_from(body.len() + 4).expect("a message is below 4 GB");
        Self([&[letter], &length.to_be_bytes()[..], body].concat())
    }

    /// The next one; `None` at the end of the stream.
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
        let mut letter = [0];
        if from.read(&mut letter).await? == 0 {
            return Ok(None);
        }
        Ok(Some(Self(framed(&letter, from).await?)))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn letter(&self) -> u8 {
        self.0[0]
    }

    pub fn body(&self) -> &[u8] {
        &self.0[5..]
    }

    /// Whether a client says with it that it leaves.
    pub fn is_farewell(&self) -> bool {
        self.letter() == b'X'
    }

    /// The process of the session, if a server says it with this.
    pub fn backend(&self) -> Option<i32> {
        let pid = (self.letter() == b'K').then(|| self.body().first_chunk())?;
        pid.map(|pid| i32::from_be_bytes(*pid))
    }

    /// One of a client's of the same kind, which the server must refuse; `None` where it refuses none.
    pub fn refused(&self) -> Option<Self> {
        let body = match self.letter() {
            b'Q' => format!("{CANCELLED}\0").into_bytes(),
            b'P' => [self.first_text(), b"\0refused\0", &[0; 2]].concat(),
            b'B' => [b"\0", UNKNOWN.as_bytes(), b"\0", &[0; 6]].concat(),
            b'D' => [&self.body()[..1], UNKNOWN.as_bytes(), b"\0"].concat(),
            b'E' => [UNKNOWN.as_bytes(), b"\0", &[0; 4]].concat(),
            _ => return None,
        };
        Some(Self::new(self.letter(), &body))
    }

    /// What a client asks for with it, for people.
    pub fn name(&self) -> String {
        match self.letter() {
            b'Q' => format!("Query {}", start(self.first_text())),
            b'P' => format!("Parse {}", start(&self.body()[self.first_text().len() + 1..])),
            b'B' => "Bind".to_owned(),
            b'D' => "Describe".to_owned(),
            b'E' => "Execute".to_owned(),
            b'S' => "Sync".to_owned(),
            b'C' => "Close".to_owned(),
            b'H' => "Flush".to_owned(),
            other => char::from(other).to_string(),
        }
    }

    /// Up to the first zero.
    fn first_text(&self) -> &[u8] {
        self.body().split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// What a client sends first, before there are letters.
pub(super) enum Startup {
    /// It wants TLS, and goes on without it when told `N`.
    Tls,
    /// Anything else.
    Other(Vec<u8>),
}

impl Startup {
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let bytes = framed(&[], from).await?;
        let asked = bytes.get(4..8).and_then(<[u8]>::first_chunk).copied();
        match asked.map(i32::from_be_bytes) {
            Some(TLS_REQUEST) => Ok(Self::Tls),
            _ => Ok(Self::Other(bytes)),
        }
    }
}

/// What was read, a length, and as many bytes as it says.
async fn framed(read: &[u8], from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = from.read_u32().await?;
    let rest = length.checked_sub(4).ok_or(io::ErrorKind::InvalidData)?;
    let mut bytes = [read, &length.to_be_bytes()].concat();
    let before = bytes.len();
    bytes.resize(before + rest as usize, 0);
    from.read_exact(&mut bytes[before..]).await?;
    Ok(bytes)
}

/// The first words of a statement, without the comments before it.
fn start(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text.split(|byte| *byte == 0).next().unwrap_or_default());
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with("--"));
    let line = lines.find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_read_one_by_one_until_the_end() {
        let (first, second) = (Message::new(b'Q', b"SELECT 1\0"), Message::new(b'S', b""));
        let bytes = [first.bytes(), second.bytes()].concat();
        let mut stream = &bytes[..];
        assert_eq!(Message::read(&mut stream).await.unwrap(), Some(first));
        assert_eq!(Message::read(&mut stream).await.unwrap(), Some(second));
        assert_eq!(Message::read(&mut stream).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_message_that_breaks_off_is_an_error() {
        let bytes = Message::new(b'Q', b"SELECT 1\0").bytes().to_vec();
        assert!(Message::read(&mut &bytes[..bytes.len() - 1]).await.is_err());
        assert!(
            Message::read(&mut &b"Q\0\0\0\x03"[..]).await.is_err(),
            "it is shorter than its length"
        );
    }

    #[test]
    fn a_message_is_named_by_what_it_asks_for() {
        let query = Message::new(b'Q', b"-- Why.\n  BEGIN ISOLATION LEVEL READ COMMITTED\0");
        assert_eq!(query.name(), "Query BEGIN ISOLATION LEVEL READ COMMITTED");
        assert_eq!(Message::new(b'P', b"s1\0SELECT $1\0\0\0").name(), "Parse SELECT $1");
        assert_eq!(Message::new(b'S', b"").name(), "Sync");
    }

    #[test]
    fn a_refused_message_is_of_the_same_kind_and_has_the_same_name_to_close() {
        let parse = Message::new(b'P', b"s1\0SELECT $1\0\0\0").refused().unwrap();
        assert_eq!(parse.body(), b"s1\0refused\0\0\0");
        for letter in *b"QPBDE" {
            let message = Message::new(letter, b"S\0\0\0\0\0\0\0\0");
            assert_eq!(message.refused().map(|refused| refused.letter()), Some(letter));
        }
        assert_eq!(Message::new(b'S', b"").refused(), None);
    }
}
