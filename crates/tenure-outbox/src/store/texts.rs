//! What a rail says, as the database can keep it: without the one character that Postgres refuses, and cut.

use std::borrow::Cow;

use crate::rail::Outcome;

/// As many characters as a code has at most.
const CODE: usize = 200;
/// As many characters as are kept of a message.
const MESSAGE: usize = 2_000;

pub(super) fn reference(outcome: &Outcome) -> Option<Cow<'_, str>> {
    kept(outcome.rail_reference.as_deref(), CODE)
}

pub(super) fn rail_code(outcome: &Outcome) -> Option<Cow<'_, str>> {
    kept(outcome.rail_code.as_deref(), CODE)
}

pub(super) fn error_code(outcome: &Outcome) -> Option<Cow<'_, str>> {
    kept(outcome.error_code.as_deref(), CODE)
}

pub(super) fn error_message(outcome: &Outcome) -> Option<Cow<'_, str>> {
    kept(outcome.error_message.as_deref(), MESSAGE)
}

fn kept(text: Option<&str>, most: usize) -> Option<Cow<'_, str>> {
    let text = text?;
    if !text.contains('\0') && text.len() <= most {
        return Some(Cow::Borrowed(text));
    }
    Some(Cow::Owned(text.chars().filter(|character| *character != '\0').take(most).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_postgres_refuses_is_left_out_and_what_is_too_long_is_cut() {
        assert_eq!(kept(None, 5), None);
        assert_eq!(kept(Some("paid"), 5).as_deref(), Some("paid"));
        assert_eq!(kept(Some("pa\0id"), 5).as_deref(), Some("paid"));
        assert_eq!(kept(Some("größer als fünf"), 5).as_deref(), Some("größe"));
    }
}
