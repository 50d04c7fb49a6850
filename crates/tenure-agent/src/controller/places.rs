//! Where the controller is: the endpoints that were configured, and the leader that they name.
//!
//! ```text
//!              it leads                       it leads
//! configured ───────────▶ stay    a search ───────────▶ stay there
//!     ▲  │ it names another ───────▶ │ ▲ │ it names another
//!     │  │                           │ └─┘ three hops, nobody twice
//!     │  ▼ no answer, nobody named   ▼ no answer, nobody new named
//!     └── next in turn ◀─────────────┘
//! ```
//!
//! Whom a search asks on its way is its own affair: only who turns out to lead is where everybody goes. Otherwise
//! one search would begin in the middle of another, and nobody's hops would be counted.

use reqwest::Url;

/// How often somebody is followed without a pause.
const MOST_HOPS: usize = 3;

/// Somebody to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Without a slash at its end.
    base: String,
    /// Whether the configured endpoint that led here is https. Such a place never names one that is not.
    is_secure: bool,
}

/// Why a named leader is not gone to.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotFollowed {
    #[error("it names a leader by what is no http or https URL")]
    NoUrl,
    #[error("it names a leader by plain http, and was reached by https")]
    Downgrade,
    #[error("it names a leader that was asked just now, and that names another")]
    Circle,
    #[error("too many nodes name another leader")]
    TooManyHops,
}

/// All places that are known, and the one to ask.
#[derive(Debug)]
pub(crate) struct Places {
    configured: Vec<Place>,
    at: usize,
    leader: Option<Place>,
}

/// A search for the leader: whom it has asked, in order.
#[derive(Debug)]
pub(crate) struct Search {
    asked: Vec<Place>,
}

impl Place {
    fn configured(url: &Url) -> Self {
        Self { base: base(url), is_secure: url.scheme() == "https" }
    }

    /// The leader that this place names.
    fn named(&self, leader_url: &str) -> Result<Self, NotFollowed> {
        let url: Url = leader_url.parse().map_err(|_| NotFollowed::NoUrl)?;
        let has_user = !url.username().is_empty() || url.password().is_some();
        if !["http", "https"].contains(&url.scheme()) || !url.has_host() || has_user {
            return Err(NotFollowed::NoUrl);
        }
        if self.is_secure && url.scheme() != "https" {
            return Err(NotFollowed::Downgrade);
        }
        Ok(Self { base: base(&url), is_secure: self.is_secure })
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub fn as_str(&self) -> &str {
        &self.base
    }
}

fn base(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.as_str().trim_end_matches('/').to_owned()
}

impl Places {
    /// Of at least one URL.
    pub fn new(urls: &[Url]) -> Self {
        Self { configured: urls.iter().map(Place::configured).collect(), at: 0, leader: None }
    }

    pub fn current(&self) -> &Place {
        self.leader.as_ref().unwrap_or(&self.configured[self.at])
    }

    /// Whom the search has found leads; unless somebody has left the place where it began already.
    pub fn stay(&mut self, search: &Search) {
        let (start, leader) = (search.start(), search.place());
        if self.current() == start && leader != start {
            self.leader = Some(leader.clone());
        }
    }

    /// Goes to the next configured place, unless somebody else has left `from` already.
    pub fn leave(&mut self, from: &Place) {
        if self.current() == from {
            self.leader = None;
            self.at = (self.at + 1) % self.configured.len();
        }
    }
}

impl Search {
    pub fn begin(at: Place) -> Self {
        Self { asked: vec![at] }
    }

    pub fn start(&self) -> &Place {
        self.asked.first().expect("somebody is asked first")
    }

    /// Whom to ask.
    pub fn place(&self) -> &Place {
        self.asked.last().expect("somebody is asked first")
    }

    /// Turns to the leader that the place asked last has named.
    pub fn follow(&mut self, leader_url: &str) -> Result<(), NotFollowed> {
        let leader = self.place().named(leader_url)?;
        if self.asked.contains(&leader) {
            return Err(NotFollowed::Circle);
        }
        if self.asked.len() > MOST_HOPS {
            return Err(NotFollowed::TooManyHops);
        }
        self.asked.push(leader);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(urls: &[&str]) -> Places {
        Places::new(&urls.iter().map(|url| url.parse().unwrap()).collect::<Vec<_>>())
    }

    fn search(url: &str) -> Search {
        Search::begin(places(&[url]).current().clone())
    }

    #[test]
    fn a_place_that_is_left_is_followed_by_the_next_in_turn() {
        let mut places = places(&["http://a", "http://b/"]);
        let first = places.current().clone();
        places.leave(&first);
        assert_eq!(places.current().as_str(), "http://b");
        // Somebody else asked the first one too, and hears later that it is not there.
        places.leave(&first);
        let second = places.current().clone();
        assert_eq!(second.url("/v1/leases"), "http://b/v1/leases");
        let mut late = Search::begin(first.clone());
        late.follow("http://c:8080/").unwrap();
        places.stay(&late);
        assert_eq!(places.current(), &second);
        let mut search = Search::begin(second.clone());
        search.follow("http://c:8080/").unwrap();
        assert_eq!(places.current(), &second);
        places.stay(&search);
        assert_eq!(places.current().as_str(), "http://c:8080");
        places.leave(search.place());
        assert_eq!(places.current(), &first);
    }

    #[test]
    fn a_path_of_the_endpoint_is_kept() {
        let places = places(&["https://host/tenure/?x=1#y"]);
        assert_eq!(places.current().url("/v1/results"), "https://host/tenure/v1/results");
    }

    #[test]
    fn two_that_name_each_other_are_each_asked_once() {
        let mut search = search("http://a");
        assert_eq!(search.follow("http://a/"), Err(NotFollowed::Circle));
        search.follow("http://b").unwrap();
        assert_eq!(search.place().as_str(), "http://b");
        assert_eq!(search.follow("http://a"), Err(NotFollowed::Circle));
    }

    #[test]
    fn nobody_is_followed_further_than_three_hops() {
        let mut search = search("http://a");
        for next in ["http://b", "http://c", "http://d"] {
            search.follow(next).unwrap();
        }
        assert_eq!(search.follow("http://e"), Err(NotFollowed::TooManyHops));
    }

    #[test]
    fn what_is_no_url_of_a_controller_is_not_followed() {
        for named in ["", "b", "ftp://b", "file:///etc/passwd", "http://user:word@b", "//b"] {
            assert_eq!(search("http://a").follow(named), Err(NotFollowed::NoUrl), "{named}");
        }
    }

    #[test]
    fn nobody_is_led_from_https_to_http_over_any_number_of_hops() {
        let mut search = search("https://a");
        assert_eq!(search.follow("http://b"), Err(NotFollowed::Downgrade));
        search.follow("https://b").unwrap();
        assert_eq!(search.follow("http://c"), Err(NotFollowed::Downgrade));
        let mut plain = self::search("http://a");
        plain.follow("https://b").unwrap();
        plain.follow("http://c").unwrap();
    }
}
