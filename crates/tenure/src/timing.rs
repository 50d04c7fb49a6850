//! Durations, and the relations that they must satisfy.
//!
//! Everything a node does by its own clock follows from one number, the *local deadline*: the moment
//! before the last successful acquire or renew was sent, plus the lease, less the margin.
//! The gate is shut from then on, whatever has or has not been heard since.
//!
//! ```text
//! sent                                   local deadline            expiry by the database's clock
//!  |----- renew interval -----| … tries …|------- margin ----------|
//!  |  call timeout  |
//! ```
//!
//! Settings that cannot work are refused here, at start, by name.

use std::time::Duration;

/// Databases keep the margin in whole milliseconds, and one of zero would be none.
const LEAST_MARGIN: Duration = Duration::from_millis(1);

/// What an election does when a renewal brings an error or no answer at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnFailedRenew {
    /// Try again until the local deadline; a stall that ends in time costs nothing.
    RideOut,
    /// The term is over at once.
    EndTerm,
}

/// What an election does when the local deadline passes and the lock may still be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnDeadline {
    /// The term is over: work is stopped, and a new term must be won.
    EndTerm,
    /// The gate shuts, and a renewal that proves the same term opens it again.
    /// Only for a lock that cannot pass to another while its session lives, and only where a shut
    /// gate is enough to stop the work.
    ShutUntilProven,
}

/// How soon a winner acts when the lock passed to it without having been released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Takeover {
    /// Sit out the time that the predecessor's gate may still be open.
    Wait,
    /// Act at once; where the lock can pass while a gate is open, the fence alone holds.
    Immediate,
}

/// The pause after a failed call: `min` to `max`, doubling with every further failure up to `cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    /// The shortest first pause.
    pub min: Duration,
    /// The longest first pause; the pause is drawn evenly between the two.
    pub max: Duration,
    /// No pause is longer.
    pub cap: Duration,
}

impl Backoff {
    /// The pause after `failures` failures in a row, as its shortest and the spread above that.
    #[must_use]
    pub fn pause(&self, failures: u32) -> (Duration, Duration) {
        let times = 1 << failures.saturating_sub(1).min(16);
        let min = self.min.saturating_mul(times).min(self.cap);
        let max = self.max.saturating_mul(times).min(self.cap);
        (min, max.saturating_sub(min))
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            min: Duration::from_millis(200),
            max: Duration::from_millis(800),
            cap: Duration::from_secs(5),
        }
    }
}

/// All durations of one election, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    lease: Duration,
    margin: Duration,
    renew_interval: Duration,
    renew_jitter: Duration,
    call_timeout: Duration,
    acquire_interval: Duration,
    backoff: Backoff,
    on_failed_renew: OnFailedRenew,
    on_deadline: OnDeadline,
    takeover: Takeover,
    drain_grace: Duration,
    drain_cooldown: Duration,
    hold_down: Duration,
    raise_within: Duration,
    prepare_within: Duration,
}

impl Timing {
    /// Starts from a lease of this length; the rest follows from it until it is set.
    pub fn lease(lease: Duration) -> TimingBuilder {
        TimingBuilder::new(Trust::Lease(lease))
    }

    /// Starts from a heartbeat interval and a late threshold, as the advisory lock has them.
    ///
    /// The gate stays open for the late threshold after the last heartbeat that was sent and
    /// answered; the margin comes on top, so that the server never frees the lock under an open gate.
    pub fn heartbeat(interval: Duration, late_threshold: Duration) -> TimingBuilder {
        let mut builder = TimingBuilder::new(Trust::LateThreshold(late_threshold));
        builder.names = Names::HEARTBEAT;
        builder.renew_interval = Some(interval);
        builder.renew_jitter = Some(interval / 5);
        builder.on_failed_renew = OnFailedRenew::EndTerm;
        builder.on_deadline = OnDeadline::ShutUntilProven;
        builder
    }

    /// How long the lock is granted for, by the database's clock.
    #[must_use]
    pub fn lease_duration(&self) -> Duration {
        self.lease
    }

    /// How much earlier than the lease the local deadline is.
    #[must_use]
    pub fn margin(&self) -> Duration {
        self.margin
    }

    /// How long the gate may stay open after the sending of a renewal: the lease less the margin.
    #[must_use]
    pub fn gate_open_for(&self) -> Duration {
        self.lease - self.margin
    }

    /// The time from one renewal to the next.
    #[must_use]
    pub fn renew_interval(&self) -> Duration {
        self.renew_interval
    }

    /// Half the width of the band that renewals are spread over.
    #[must_use]
    pub fn renew_jitter(&self) -> Duration {
        self.renew_jitter
    }

    /// How long a call to the lock may take before its connection is thrown away.
    #[must_use]
    pub fn call_timeout(&self) -> Duration {
        self.call_timeout
    }

    /// The limit that the server puts on one statement of such a call: below the client's.
    #[must_use]
    pub fn statement_timeout(&self) -> Duration {
        self.call_timeout * 4 / 5
    }

    /// A follower's longest pause between two looks at the lock.
    #[must_use]
    pub fn acquire_interval(&self) -> Duration {
        self.acquire_interval
    }

    /// The pause after a failed call.
    #[must_use]
    pub fn backoff(&self) -> Backoff {
        self.backoff
    }

    /// What a failed renewal means.
    #[must_use]
    pub fn on_failed_renew(&self) -> OnFailedRenew {
        self.on_failed_renew
    }

    /// What a passed deadline means.
    #[must_use]
    pub fn on_deadline(&self) -> OnDeadline {
        self.on_deadline
    }

    /// How soon a winner acts after a predecessor that did not release.
    #[must_use]
    pub fn takeover(&self) -> Takeover {
        self.takeover
    }

    /// How long running work may go on after a drain was asked for.
    #[must_use]
    pub fn drain_grace(&self) -> Duration {
        self.drain_grace
    }

    /// The pause between two looks of a node that does not contend: as often as a leader renews, so that a live
    /// term never goes out of sight.
    #[must_use]
    pub fn look_interval(&self) -> Duration {
        self.acquire_interval.min(self.renew_interval)
    }

    /// How long a drained node stays out; after that it contends again if nobody has taken over.
    #[must_use]
    pub fn drain_cooldown(&self) -> Duration {
        self.drain_cooldown
    }

    /// How long a node stays out after its own work failed, so that another gets the chance.
    #[must_use]
    pub fn hold_down(&self) -> Duration {
        self.hold_down
    }

    /// How long a winner may take to raise the fence before it gives the term back.
    #[must_use]
    pub fn raise_within(&self) -> Duration {
        self.raise_within
    }

    /// How long it may take to prepare its work before it gives the term back.
    #[must_use]
    pub fn prepare_within(&self) -> Duration {
        self.prepare_within
    }
}

/// The names under which settings are refused: whoever set a heartbeat must not read of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Names {
    lease: &'static str,
    deadline: &'static str,
    renew: &'static str,
}

impl Names {
    const LEASE: Self =
        Self { lease: "lease duration", deadline: "local deadline", renew: "renew interval" };
    const HEARTBEAT: Self = Self {
        lease: "late threshold plus margin",
        deadline: "late threshold",
        renew: "heartbeat interval",
    };
}

/// What the caller set: the lease with its margin, or what is left of it without.
#[derive(Clone, Copy, Debug)]
enum Trust {
    Lease(Duration),
    LateThreshold(Duration),
}

impl Trust {
    fn default_margin(self) -> Duration {
        let (Self::Lease(length) | Self::LateThreshold(length)) = self;
        let fifth = length / 5;
        if length < Duration::from_secs(5) { fifth } else { fifth.max(Duration::from_secs(1)) }
    }

    fn lease(self, margin: Duration) -> Duration {
        match self {
            Self::Lease(lease) => lease,
            Self::LateThreshold(late) => late + margin,
        }
    }
}

/// Settings on the way to a [`Timing`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct TimingBuilder {
    names: Names,
    trust: Trust,
    margin: Option<Duration>,
    renew_interval: Option<Duration>,
    renew_jitter: Option<Duration>,
    call_timeout: Option<Duration>,
    acquire_interval: Option<Duration>,
    backoff: Backoff,
    on_failed_renew: OnFailedRenew,
    on_deadline: OnDeadline,
    takeover: Takeover,
    drain_grace: Duration,
    drain_cooldown: Option<Duration>,
    hold_down: Option<Duration>,
    raise_within: Option<Duration>,
    prepare_within: Option<Duration>,
}

impl TimingBuilder {
    fn new(trust: Trust) -> Self {
        Self {
            names: Names::LEASE,
            trust,
            margin: None,
            renew_interval: None,
            renew_jitter: None,
            call_timeout: None,
            acquire_interval: None,
            backoff: Backoff::default(),
            on_failed_renew: OnFailedRenew::RideOut,
            on_deadline: OnDeadline::EndTerm,
            takeover: Takeover::Immediate,
            drain_grace: Duration::from_secs(5),
            drain_cooldown: None,
            hold_down: None,
            raise_within: None,
            prepare_within: None,
        }
    }

    /// How much earlier than the lease the gate shuts. Default: a fifth, at least 1 s from 5 s on.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// From one renewal to the next. Default: a third of the lease.
    pub fn renew_interval(mut self, interval: Duration) -> Self {
        self.renew_interval = Some(interval);
        self
    }

    /// How long one call may take. Default: half the renew interval, at most 3 s.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = Some(timeout);
        self
    }

    /// A follower's longest pause. Default: the lease.
    pub fn acquire_interval(mut self, interval: Duration) -> Self {
        self.acquire_interval = Some(interval);
        self
    }

    /// The pause after a failed call.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// What a failed renewal means. Default: ride it out (a lease), end the term (a heartbeat).
    pub fn on_failed_renew(mut self, rule: OnFailedRenew) -> Self {
        self.on_failed_renew = rule;
        self
    }

    /// What a passed deadline means. Default: end the term (a lease), shut until proven (a heartbeat).
    pub fn on_deadline(mut self, rule: OnDeadline) -> Self {
        self.on_deadline = rule;
        self
    }

    /// How soon to act after a predecessor that did not release. Default: at once.
    pub fn takeover(mut self, takeover: Takeover) -> Self {
        self.takeover = takeover;
        self
    }

    /// How long running work may go on after a drain was asked for. Default: 5 s.
    pub fn drain_grace(mut self, grace: Duration) -> Self {
        self.drain_grace = grace;
        self
    }

    /// How long a drained node waits before it looks whether anybody took over. Default: 3 leases.
    pub fn drain_cooldown(mut self, cooldown: Duration) -> Self {
        self.drain_cooldown = Some(cooldown);
        self
    }

    /// How long a node stays out after its own work failed. Default: half a lease.
    pub fn hold_down(mut self, hold_down: Duration) -> Self {
        self.hold_down = Some(hold_down);
        self
    }

    /// How long a winner may take to raise the fence. Default: a lease.
    pub fn raise_within(mut self, limit: Duration) -> Self {
        self.raise_within = Some(limit);
        self
    }

    /// How long a winner may take to prepare its work. Default: 3 leases, at least 30 s.
    pub fn prepare_within(mut self, limit: Duration) -> Self {
        self.prepare_within = Some(limit);
        self
    }

    /// Checks the relations, and refuses by name what cannot work.
    pub fn build(self) -> Result<Timing, TimingError> {
        let timing = self.with_defaults();
        self.refuse_disorder(&timing)?;
        Ok(timing)
    }

    fn with_defaults(self) -> Timing {
        let margin = self.margin.unwrap_or_else(|| self.trust.default_margin());
        let lease = self.trust.lease(margin);
        let renew_interval = self.renew_interval.unwrap_or(lease / 3);
        Timing {
            lease,
            margin,
            renew_interval,
            renew_jitter: self.renew_jitter.unwrap_or_default(),
            call_timeout: self
                .call_timeout
                .unwrap_or_else(|| (renew_interval / 2).min(Duration::from_secs(3))),
            acquire_interval: self.acquire_interval.unwrap_or(lease),
            backoff: self.backoff,
            on_failed_renew: self.on_failed_renew,
            on_deadline: self.on_deadline,
            takeover: self.takeover,
            drain_grace: self.drain_grace,
            drain_cooldown: self.drain_cooldown.unwrap_or(lease * 3),
            hold_down: self.hold_down.unwrap_or(lease / 2),
            raise_within: self.raise_within.unwrap_or(lease),
            prepare_within: self
                .prepare_within
                .unwrap_or_else(|| (lease * 3).max(Duration::from_secs(30))),
        }
    }

    fn refuse_disorder(&self, timing: &Timing) -> Result<(), TimingError> {
        let names = self.names;
        let below = |low_name, low, high_name, high| {
            if low < high {
                return Ok(());
            }
            Err(TimingError::NotBelow { low_name, low, high_name, high })
        };
        for (name, value) in [
            (names.lease, timing.lease),
            (names.renew, timing.renew_interval),
            ("call timeout", timing.call_timeout),
            ("acquire interval", timing.acquire_interval),
            ("time to raise the fence", timing.raise_within),
            ("time to prepare", timing.prepare_within),
        ] {
            below("0s", Duration::ZERO, name, value)?;
        }
        if timing.margin < LEAST_MARGIN {
            return Err(TimingError::TooShort {
                name: "margin",
                value: timing.margin,
                least: LEAST_MARGIN,
            });
        }
        below("margin", timing.margin, names.lease, timing.lease)?;
        below(names.renew, timing.renew_interval, names.lease, timing.lease)?;
        below("call timeout", timing.call_timeout, names.renew, timing.renew_interval)?;
        let latest_renew = timing.renew_interval + timing.renew_jitter;
        below(names.renew, latest_renew, names.deadline, timing.gate_open_for())?;
        if self.backoff.min > self.backoff.max {
            return Err(TimingError::NotBelow {
                low_name: "shortest back-off",
                low: self.backoff.min,
                high_name: "longest back-off",
                high: self.backoff.max,
            });
        }
        Ok(())
    }
}

/// Settings that no election could run with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// Two settings stand in the wrong order.
    #[error("{low_name} {low:?} must be below {high_name} {high:?}")]
    NotBelow {
        /// The name of what must be smaller.
        low_name: &'static str,
        /// Its value.
        low: Duration,
        /// The name of what must be larger.
        high_name: &'static str,
        /// Its value.
        high: Duration,
    },
    /// Less than what databases count in.
    #[error("{name} {value:?} must be at least {least:?}")]
    TooShort {
        /// The name of the setting.
        name: &'static str,
        /// Its value.
        value: Duration,
        /// The least that means anything.
        least: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn refusal(builder: TimingBuilder) -> String {
        builder.build().unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_of_every_lease_are_in_order() {
        for millis in [300, 1_000, 3_000, 10_000, 60_000, 600_000] {
            let timing = Timing::lease(Duration::from_millis(millis)).build().unwrap();
            assert!(timing.statement_timeout() < timing.call_timeout());
            assert!(timing.call_timeout() < timing.renew_interval());
            assert!(timing.renew_interval() < timing.gate_open_for());
            assert!(timing.gate_open_for() < timing.lease_duration());
        }
    }

    #[test]
    fn the_margin_is_a_fifth_and_at_least_a_second_for_real_leases() {
        let margin = |lease| Timing::lease(lease).build().unwrap().margin();
        assert_eq!(margin(secs(60)), secs(12));
        assert_eq!(margin(secs(5)), secs(1));
        assert_eq!(margin(secs(1)), Duration::from_millis(200));
    }

    #[test]
    fn impossible_leases_are_refused_by_name() {
        let lease = Timing::lease(secs(10));
        assert_eq!(
            refusal(lease.renew_interval(secs(20))),
            "renew interval 20s must be below lease duration 10s"
        );
        assert_eq!(
            refusal(lease.renew_interval(secs(8))),
            "renew interval 8s must be below local deadline 8s"
        );
        assert_eq!(
            refusal(lease.renew_interval(secs(2)).call_timeout(secs(2))),
            "call timeout 2s must be below renew interval 2s"
        );
        assert_eq!(refusal(lease.margin(secs(10))), "margin 10s must be below lease duration 10s");
        assert_eq!(refusal(lease.margin(secs(0))), "margin 0ns must be at least 1ms");
        assert_eq!(
            refusal(lease.margin(Duration::from_micros(999))),
            "margin 999µs must be at least 1ms"
        );
        assert!(lease.margin(Duration::from_millis(1)).build().is_ok());
    }

    #[test]
    fn impossible_heartbeats_are_refused_in_their_own_words() {
        assert_eq!(
            refusal(Timing::heartbeat(secs(6), secs(6))),
            "heartbeat interval 7.2s must be below late threshold 6s"
        );
        assert_eq!(
            refusal(Timing::heartbeat(secs(9), secs(6))),
            "heartbeat interval 9s must be below late threshold plus margin 7.2s"
        );
    }

    #[test]
    fn the_gate_of_a_heartbeat_stays_open_for_the_late_threshold() {
        let timing = Timing::heartbeat(secs(3), secs(6)).build().unwrap();
        assert_eq!(timing.gate_open_for(), secs(6));
        assert_eq!(timing.on_deadline(), OnDeadline::ShutUntilProven);
        let wider = Timing::heartbeat(secs(3), secs(6)).margin(secs(3)).build().unwrap();
        assert_eq!((wider.gate_open_for(), wider.lease_duration()), (secs(6), secs(9)));
    }

    #[test]
    fn pauses_double_up_to_the_cap() {
        let backoff = Backoff::default();
        let ms = Duration::from_millis;
        assert_eq!(backoff.pause(1), (ms(200), ms(600)));
        assert_eq!(backoff.pause(2), (ms(400), ms(1200)));
        assert_eq!(backoff.pause(40), (secs(5), ms(0)));
    }
}
