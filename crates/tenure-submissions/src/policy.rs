//! What follows from the outcome of an attempt: pure rules, and the one place that has them.

use jiff::{SignedDuration, Timestamp};

use crate::{
    contract::{Contract, Policy},
    intent::ExhaustedReason,
};

/// What came of a call to a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The gateway took it.
    Accepted {
        /// What it added.
        reason: Option<String>,
    },
    /// The gateway refused it.
    Rejected {
        /// Why.
        reason: String,
    },
    /// Nobody knows, or the gateway spoke nonsense.
    Failed {
        /// What it said its status was, if anything.
        status: Option<String>,
        /// What went wrong.
        error: String,
        /// Whether the gateway may have acted all the same: its answer was lost, or cannot be understood.
        may_have_acted: bool,
    },
}

/// A gateway's word that it knows the key, or the reference: it says nothing of what came of that.
const DUPLICATE: &str = "duplicate_reference";

/// Which key the attempts that follow must carry, after a call under the key of attempt `sent`; `None` for one of their
/// own. Once a call's outcome is unknown its key stays: a gateway that honours keys then acts once. Only a refusal under
/// that key proves that nothing was done; a call that was never made, or that the gateway did not look at, proves nothing
/// about one before it.
#[must_use]
pub fn held_key(sent: i32, was_unknown: bool, outcome: &Outcome) -> Option<i32> {
    let is_unknown = match outcome {
        Outcome::Accepted { .. } => false,
        Outcome::Rejected { reason } => was_unknown && reason == DUPLICATE,
        Outcome::Failed { may_have_acted, .. } => was_unknown || *may_have_acted,
    };
    is_unknown.then_some(sent)
}

/// What becomes of the intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is accepted.
    Accepted,
    /// It is rejected for good.
    Rejected {
        /// Why.
        reason: String,
    },
    /// It is given up.
    Exhausted(ExhaustedReason),
    /// It is tried again.
    Retry {
        /// Not before this moment.
        at: Timestamp,
    },
}

/// When an intent with a deadline may no longer be begun.
#[must_use]
pub fn deadline(policy: Policy, created_at: Timestamp) -> Option<Timestamp> {
    match policy {
        Policy::Deadline { max_acceptance_seconds } => {
            let length = SignedDuration::from_secs(max_acceptance_seconds);
            Some(created_at.checked_add(length).unwrap_or(Timestamp::MAX))
        }
        Policy::MaxAttempts { .. } | Policy::OneShot => None,
    }
}

/// What follows from attempt `number`, which finished at `finished_at`. All moments are the database's.
#[must_use]
pub fn follow_up(
    contract: &Contract,
    created_at: Timestamp,
    number: i32,
    outcome: &Outcome,
    finished_at: Timestamp,
    retry_after: SignedDuration,
) -> Next {
    let deadline = deadline(contract.policy, created_at);
    match outcome {
        Outcome::Accepted { .. } if deadline.is_some_and(|deadline| finished_at >= deadline) => {
            return Next::Exhausted(ExhaustedReason::DeadlineExceeded);
        }
        Outcome::Accepted { .. } => return Next::Accepted,
        Outcome::Rejected { reason } if contract.terminal_outcomes.contains(reason) => {
            return Next::Rejected { reason: reason.clone() };
        }
        Outcome::Rejected { .. } | Outcome::Failed { .. } => {}
    }
    let at = finished_at.checked_add(retry_after).unwrap_or(Timestamp::MAX);
    match contract.policy {
        Policy::OneShot => Next::Exhausted(ExhaustedReason::OneShot),
        Policy::MaxAttempts { max_attempts } if number >= max_attempts => {
            Next::Exhausted(ExhaustedReason::MaxAttempts)
        }
        Policy::MaxAttempts { .. } => Next::Retry { at },
        Policy::Deadline { .. } if deadline.is_some_and(|deadline| at < deadline) => {
            Next::Retry { at }
        }
        Policy::Deadline { .. } => Next::Exhausted(ExhaustedReason::DeadlineExceeded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::GatewayType;

    fn contract(policy: Policy) -> Contract {
        Contract {
            gateway_type: GatewayType::Sms,
            gateway_url: "http://gateway".to_owned(),
            policy,
            terminal_outcomes: vec!["invalid_recipient".to_owned()],
            webhook: None,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000 + second).unwrap()
    }

    fn after(policy: Policy, number: i32, outcome: &Outcome, finished: i64) -> Next {
        let retry_after = SignedDuration::from_secs(5);
        follow_up(&contract(policy), at(0), number, outcome, at(finished), retry_after)
    }

    const TEN_SECONDS: Policy = Policy::Deadline { max_acceptance_seconds: 10 };
    const THREE_TIMES: Policy = Policy::MaxAttempts { max_attempts: 3 };

    fn accepted() -> Outcome {
        Outcome::Accepted { reason: None }
    }

    fn rejected(reason: &str) -> Outcome {
        Outcome::Rejected { reason: reason.to_owned() }
    }

    fn failed() -> Outcome {
        let error = "gateway returned status 500".to_owned();
        Outcome::Failed { status: None, error, may_have_acted: true }
    }

    #[test]
    fn a_key_is_held_from_a_lost_answer_until_a_refusal_under_it() {
        let error = String::new();
        let not_made = Outcome::Failed { status: None, error, may_have_acted: false };
        for (was_unknown, outcome, is_held) in [
            (false, accepted(), false),
            (true, accepted(), false),
            (false, rejected("provider_failure"), false),
            (true, rejected("provider_failure"), false),
            (false, rejected("duplicate_reference"), false),
            (true, rejected("duplicate_reference"), true),
            (false, not_made.clone(), false),
            (true, not_made, true),
            (false, failed(), true),
            (true, failed(), true),
        ] {
            let held = held_key(3, was_unknown, &outcome);
            assert_eq!(held, is_held.then_some(3), "{was_unknown}, {outcome:?}");
        }
    }

    #[test]
    fn what_the_gateway_took_is_accepted_unless_its_deadline_has_passed() {
        assert_eq!(after(Policy::OneShot, 1, &accepted(), 99), Next::Accepted);
        assert_eq!(after(TEN_SECONDS, 1, &accepted(), 9), Next::Accepted);
        let late = Next::Exhausted(ExhaustedReason::DeadlineExceeded);
        assert_eq!(after(TEN_SECONDS, 1, &accepted(), 10), late);
    }

    #[test]
    fn only_a_listed_reason_rejects_for_good() {
        let reason = "invalid_recipient".to_owned();
        assert_eq!(after(THREE_TIMES, 1, &rejected(&reason), 1), Next::Rejected { reason });
        let other = rejected("provider_failure");
        assert_eq!(after(THREE_TIMES, 1, &other, 1), Next::Retry { at: at(6) });
    }

    #[test]
    fn each_policy_ends_in_its_own_way() {
        for outcome in [failed(), rejected("provider_failure")] {
            let one_shot = Next::Exhausted(ExhaustedReason::OneShot);
            assert_eq!(after(Policy::OneShot, 1, &outcome, 1), one_shot);
            assert_eq!(after(THREE_TIMES, 2, &outcome, 1), Next::Retry { at: at(6) });
            let often = Next::Exhausted(ExhaustedReason::MaxAttempts);
            assert_eq!(after(THREE_TIMES, 3, &outcome, 1), often);
            assert_eq!(after(TEN_SECONDS, 9, &outcome, 4), Next::Retry { at: at(9) });
            let late = Next::Exhausted(ExhaustedReason::DeadlineExceeded);
            assert_eq!(after(TEN_SECONDS, 9, &outcome, 5), late, "due exactly at the deadline");
        }
    }
}
