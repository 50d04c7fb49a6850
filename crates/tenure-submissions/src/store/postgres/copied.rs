//! Rows of a binary COPY, read as they come: a new leader may have a million of them before it can begin.

use tenure_database::postgres::Moment;
use tokio_postgres::types::{FromSql, Type};

use crate::{
    schedule::Change,
    store::{Position, StoreError, columns::unreadable},
};

/// What stands before the first row: a signature, flags and no extension.
const HEADER: usize = 19;
/// Says that a column is null.
const NULL: i32 = -1;

/// One line of `rebuild.sql`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Copied {
    Position(Position),
    Pending(Change),
    End,
}

/// Reads one message of the stream; the first begins with the header.
pub(super) fn read(message: &[u8], is_first: bool) -> Result<Copied, StoreError> {
    let mut rest = message;
    if is_first {
        take(&mut rest, HEADER)?;
    }
    let columns = i16::from_be_bytes(fixed(&mut rest)?);
    if columns == -1 {
        return Ok(Copied::End);
    }
    let (row, version) = (column(&mut rest)?, column(&mut rest)?);
    match (column(&mut rest)?, column(&mut rest)?, column(&mut rest)?) {
        (Some(due), None, None) => Ok(Copied::Pending(Change {
            row: number(row)?,
            version: number(version)?,
            due: Some(moment(due)?),
        })),
        (None, Some(marker), Some(server)) => {
            Ok(Copied::Position(Position { marker: text(marker)?, server: text(server)? }))
        }
        _ => Err(torn()),
    }
}

fn torn() -> StoreError {
    unreadable("a row of another shape")
}

fn take<'m>(rest: &mut &'m [u8], count: usize) -> Result<&'m [u8], StoreError> {
    let (taken, left) = rest.split_at_checked(count).ok_or_else(torn)?;
    *rest = left;
    Ok(taken)
}

fn fixed<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], StoreError> {
    take(rest, N)?.try_into().map_err(|_| torn())
}

fn column<'m>(rest: &mut &'m [u8]) -> Result<Option<&'m [u8]>, StoreError> {
    match i32::from_be_bytes(fixed(rest)?) {
        NULL => Ok(None),
        length => take(rest, usize::try_from(length).map_err(|_| torn())?).map(Some),
    }
}

fn number(column: Option<&[u8]>) -> Result<i64, StoreError> {
    let bytes = column.and_then(|bytes| bytes.try_into().ok());
    bytes.map(i64::from_be_bytes).ok_or_else(torn)
}

fn moment(column: &[u8]) -> Result<i64, StoreError> {
    Moment::from_sql(&Type::TIMESTAMPTZ, column).map(Moment::micros).map_err(|_| torn())
}

fn text(column: &[u8]) -> Result<String, StoreError> {
    String::from_utf8(column.to_vec()).map_err(|_| torn())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(columns: &[Option<&[u8]>]) -> Vec<u8> {
        let mut message = i16::try_from(columns.len()).unwrap().to_be_bytes().to_vec();
        for column in columns {
            let length = column.map_or(NULL, |bytes| i32::try_from(bytes.len()).unwrap());
            message.extend(length.to_be_bytes());
            message.extend(column.unwrap_or_default());
        }
        message
    }

    #[test]
    fn a_position_a_row_and_the_end_are_read() {
        let (row, version, due) = (7_i64.to_be_bytes(), 2_i64.to_be_bytes(), 5_i64.to_be_bytes());
        let position = message(&[Some(&row), Some(&version), None, Some(b"1:2:"), Some(b"me")]);
        let first = [vec![0; HEADER], position].concat();
        let expected = Position { marker: "1:2:".to_owned(), server: "me".to_owned() };
        assert_eq!(read(&first, true).unwrap(), Copied::Position(expected));
        let pending = message(&[Some(&row), Some(&version), Some(&due), None, None]);
        let since_1970 = Some(946_684_800_000_005);
        let change = Change { row: 7, version: 2, due: since_1970 };
        assert_eq!(read(&pending, false).unwrap(), Copied::Pending(change));
        assert_eq!(read(&(-1_i16).to_be_bytes(), false).unwrap(), Copied::End);
    }

    #[test]
    fn what_is_torn_is_refused() {
        let due = 5_i64.to_be_bytes();
        let whole = message(&[Some(&due), Some(&due), Some(&due), None, None]);
        for length in 0..whole.len() {
            assert!(read(&whole[..length], false).is_err(), "{length} bytes");
        }
        assert!(read(&message(&[Some(b"1"), Some(&due), Some(&due), None, None]), false).is_err());
    }
}
