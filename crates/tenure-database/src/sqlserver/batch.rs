//! Statements, one file and one batch each.

/// A statement file: one batch, and how many parameters it takes.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// Where its file lies among the statements.
    pub name: &'static str,
    /// What it says, with its parameters `@P1`, `@P2` and so on.
    pub sql: &'static str,
    /// How many parameters whoever sends it must bind.
    pub parameters: usize,
}

/// A [`Batch`](crate::sqlserver::Batch) out of a file of the crate that asks for it, below `sql/sqlserver`.
#[macro_export]
macro_rules! sqlserver_batch {
    ($name:literal, $parameters:literal) => {
        $crate::sqlserver::Batch {
            name: $name,
            sql: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/sql/sqlserver/",
                $name,
                ".sql"
            )),
            parameters: $parameters,
        }
    };
}

impl Batch {
    /// The highest of the parameters that the text uses.
    #[must_use]
    pub fn highest_parameter(&self) -> usize {
        let code = self.sql.lines().filter(|line| !line.trim_start().starts_with("--"));
        highest(code)
    }

    /// The highest of the parameters that the head of the file explains.
    #[must_use]
    pub fn highest_explained(&self) -> usize {
        highest(self.sql.lines().take_while(|line| line.starts_with("--")))
    }
}

fn highest<'l>(lines: impl Iterator<Item = &'l str>) -> usize {
    let number = |rest: &str| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    };
    lines
        .flat_map(|line| line.split("@P").skip(1).map(number).collect::<Vec<_>>())
        .max()
        .unwrap_or(0)
}

/// The batches of a script, which lines with nothing but `GO` separate.
pub fn batches(script: &str) -> impl Iterator<Item = String> {
    let lines: Vec<_> = script.lines().collect();
    let parts: Vec<_> =
        lines.split(|line| line.trim() == "GO").map(|part| part.join("\n")).collect();
    parts.into_iter().filter(|part| !part.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_split_where_it_says_go() {
        let script = "SELECT 1;\nGO\n-- GO on\nSELECT 2;\n GO \n\nGO\n";
        assert_eq!(batches(script).collect::<Vec<_>>(), ["SELECT 1;", "-- GO on\nSELECT 2;"]);
    }

    #[test]
    fn parameters_are_counted_in_the_head_and_in_the_code() {
        let sql = "-- Does.\n-- @P1 bigint: rows, @P2 int: how many.\nSELECT @P1 -- @P9\n-- @P8\n";
        let batch = Batch { name: "does", sql, parameters: 2 };
        assert_eq!((batch.highest_explained(), batch.highest_parameter()), (2, 9));
    }
}
