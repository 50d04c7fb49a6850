//! Which message fails, and what has come of it so far.

use super::{Bite, Failure, Seen, message::Message};

/// What all connections look at.
#[derive(Debug, Default)]
pub(super) struct Plan {
    armed: Option<(Failure, usize)>,
    seen: Seen,
    is_held: bool,
}

/// What is done with a message of a client.
pub(super) enum Act {
    Pass,
    Replace(Message),
    CutBefore,
    CutAfter,
    Hold,
}

impl Plan {
    pub fn arm(&mut self, failure: Failure, at: usize) {
        *self = Self { armed: Some((failure, at)), ..Self::default() };
    }

    /// Lets all pass from now on, and says what was seen.
    pub fn disarm(&mut self) -> Seen {
        std::mem::take(self).seen
    }

    pub fn let_go(&mut self) {
        self.is_held = false;
    }

    pub fn holds(&self) -> bool {
        self.is_held
    }

    pub fn bite(&self) -> Option<&Bite> {
        self.seen.bite.as_ref()
    }

    /// What is done with a client's message. A farewell is none that could fail.
    pub fn request(&mut self, message: &Message, backend: i32) -> Act {
        let Some((failure, at)) = self.armed else { return Act::Pass };
        if message.is_farewell() {
            return Act::Pass;
        }
        self.seen.requests.push(message.name());
        let this = self.seen.requests.len() - 1;
        if failure == Failure::FailsThenHeld && this == 0 {
            return message.refused().map_or(Act::Pass, Act::Replace);
        }
        if failure == Failure::Unheard || this != at {
            return Act::Pass;
        }
        let refused = message.refused();
        let has_effect = failure != Failure::Fails || refused.is_some();
        self.seen.bite = Some(Bite { message: message.name(), has_effect, backend });
        match (failure, refused) {
            (Failure::Fails, Some(refused)) => Act::Replace(refused),
            (Failure::Fails, None) | (Failure::Unheard, _) => Act::Pass,
            (Failure::CutBefore, _) => Act::CutBefore,
            (Failure::CutAfter, _) => Act::CutAfter,
            (Failure::Held | Failure::FailsThenHeld, _) => {
                self.is_held = true;
                Act::Hold
            }
        }
    }

    /// Whether the client's connection is cut before it hears this.
    pub fn cuts_answer(&mut self, message: &Message, backend: i32) -> bool {
        let Some((failure, at)) = self.armed else { return false };
        self.seen.answers += 1;
        let is_cut = failure == Failure::Unheard && self.seen.answers - 1 == at;
        if is_cut {
            let message = format!("answer {}", char::from(message.letter()));
            self.seen.bite = Some(Bite { message, has_effect: true, backend });
        }
        is_cut
    }
}
