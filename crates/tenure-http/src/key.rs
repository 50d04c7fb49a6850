//! An id in a header.

/// A header takes visible ASCII and Latin; whatever else an id has is written as a URL would.
#[must_use]
pub fn key_for_header(key: &str) -> String {
    let mut safe = String::with_capacity(key.len());
    for character in key.chars() {
        match character {
            ' '..='~' if character != '%' => safe.push(character),
            _ => {
                let mut bytes = [0; 4];
                for byte in character.encode_utf8(&mut bytes).bytes() {
                    safe.push_str(&format!("%{byte:02X}"));
                }
            }
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_fits_into_a_header_and_stays_unique() {
        assert_eq!(key_for_header("order-7:1"), "order-7:1");
        assert_eq!(key_for_header("ä%\n:1"), "%C3%A4%25%0A:1");
        assert!(axum::http::HeaderValue::from_str(&key_for_header("\u{1F600}\0:1")).is_ok());
    }
}
