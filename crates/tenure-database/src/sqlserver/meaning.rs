//! What SQL Server's error numbers mean for whoever asked.

/// The meaning of an error number. After any of them the session is thrown away, and its transaction with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// 2627, 2601: the key is taken.
    Duplicate,
    /// 1205, 3960: rolled back for the sake of another; the same again may succeed.
    TryAgain,
    /// 1222: somebody else has had the row for too long; nothing was written.
    Busy,
    /// A value that the database does not take, and never will.
    OfTheData,
    /// 229, 262 and their like: this login may not do that.
    NoRights,
    /// 3906 and its like: a secondary, or a read-only database.
    ReadOnly,
    /// 208, 2812: a table or a procedure is not there.
    NoSchema,
    /// 51001: the term is over.
    Refused,
    /// 51002: the scope is fenced by another lock.
    OtherLock,
    /// 51003: an operator asked for what cannot be.
    Misuse,
    /// Anything else: nobody knows what came of it.
    Unknown,
}

impl Meaning {
    /// Of a number, as `ERROR_NUMBER()` and every client give it.
    #[must_use]
    pub fn of(number: u32) -> Self {
        match number {
            2601 | 2627 => Self::Duplicate,
            1205 | 3960 => Self::TryAgain,
            1222 => Self::Busy,
            // Null, conversion, overflow, constraint, truncation.
            220 | 241 | 242 | 245 | 295 | 515 | 547 | 2628 | 8114 | 8115 | 8152 => Self::OfTheData,
            229 | 230 | 262 | 297 | 300 | 916 | 2760 | 15151 | 15247 => Self::NoRights,
            976 | 978 | 982 | 983 | 3906 | 3908 => Self::ReadOnly,
            208 | 2812 => Self::NoSchema,
            51_001 => Self::Refused,
            51_002 => Self::OtherLock,
            51_003 => Self::Misuse,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_mean_what_the_documentation_says() {
        let known = [
            (2627, Meaning::Duplicate),
            (2601, Meaning::Duplicate),
            (1205, Meaning::TryAgain),
            (3960, Meaning::TryAgain),
            (1222, Meaning::Busy),
            (547, Meaning::OfTheData),
            (515, Meaning::OfTheData),
            (2628, Meaning::OfTheData),
            (8152, Meaning::OfTheData),
            (229, Meaning::NoRights),
            (262, Meaning::NoRights),
            (15_151, Meaning::NoRights),
            (3906, Meaning::ReadOnly),
            (978, Meaning::ReadOnly),
            (208, Meaning::NoSchema),
            (2812, Meaning::NoSchema),
            (51_001, Meaning::Refused),
            (51_002, Meaning::OtherLock),
            (51_003, Meaning::Misuse),
            (18_456, Meaning::Unknown),
            (50_000, Meaning::Unknown),
        ];
        for (number, meaning) in known {
            assert_eq!(Meaning::of(number), meaning, "{number}");
        }
    }
}
