//! The targets that may be submitted to: a JSON file, read once at the start.

use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    path::Path,
    sync::Arc,
};

use serde::Deserialize;

use crate::contract::{Contract, GatewayType, Policy, Webhook};
use crate::object::Object;

/// All targets, by name.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    targets: BTreeMap<String, Arc<Contract>>,
}

/// Three decades in seconds: a moment so much later is one that every database can still write down.
const LONGEST_DEADLINE: i64 = 1_000_000_000;

/// Why a registry is refused.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// It cannot be read.
    #[error("cannot read the registry {path}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is no JSON, or not of this shape.
    #[error("the registry cannot be read at {place}: {reason}")]
    Malformed {
        /// Which field, as `targets[0].policy`.
        place: String,
        /// What is wrong there.
        reason: String,
    },
    /// A field says something that cannot be.
    #[error("{field} {why}")]
    Field {
        /// Which, as `targets[0].policy`.
        field: String,
        /// What is wrong with it.
        why: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenRegistry {
    #[serde(default)]
    allow_unsigned_webhooks: bool,
    targets: Vec<Object<WrittenTarget>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenTarget {
    submission_target: String,
    gateway_type: String,
    gateway_url: String,
    policy: String,
    max_acceptance_seconds: Option<i64>,
    max_attempts: Option<i32>,
    terminal_outcomes: Vec<String>,
    webhook: Option<Object<WrittenWebhook>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenWebhook {
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    headers_env: BTreeMap<String, String>,
    secret_env: Option<String>,
}

impl Registry {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, RegistryError> {
        let text = fs::read_to_string(path).map_err(|source| RegistryError::Unreadable {
            path: path.display().to_string(),
            source,
        })?;
        Self::parse(&text)
    }

    /// Reads a text; lines that begin with `#` are comments.
    pub fn parse(text: &str) -> Result<Self, RegistryError> {
        // An empty line in place of a comment keeps the numbers of lines in messages right.
        let lines =
            text.lines().map(|line| if line.trim_start().starts_with('#') { "" } else { line });
        let text = lines.collect::<Vec<_>>().join("\n");
        let mut reader = serde_json::Deserializer::from_str(&text);
        let Object::<WrittenRegistry>(written) = serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| RegistryError::Malformed {
                place: error.path().to_string(),
                reason: error.inner().to_string(),
            })?;
        reader.end().map_err(|error| RegistryError::Malformed {
            place: ".".to_owned(),
            reason: error.to_string(),
        })?;
        let mut targets = BTreeMap::new();
        for (at, Object(target)) in written.targets.into_iter().enumerate() {
            let place = Place(format!("targets[{at}]"));
            let name = target.submission_target.trim().to_owned();
            if name.is_empty() {
                return Err(place.refuse("submissionTarget", "must not be empty"));
            }
            let contract = target.meaning(&place, written.allow_unsigned_webhooks)?;
            if targets.insert(name.clone(), Arc::new(contract)).is_some() {
                return Err(place.refuse("submissionTarget", &format!("{name:?} is there twice")));
            }
        }
        Ok(Self { targets })
    }

    /// The contract of a target, if there is such a target.
    #[must_use]
    pub fn contract(&self, target: &str) -> Option<Arc<Contract>> {
        self.targets.get(target).cloned()
    }

    /// The variables that webhooks need and that are not set, with the target that needs each.
    pub fn missing_variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let webhooks = self.targets.iter().filter_map(|(target, contract)| {
            contract.webhook.as_ref().map(|webhook| (target.as_str(), webhook))
        });
        let needed = webhooks.flat_map(|(target, webhook)| {
            let names = webhook.headers_env.values().chain(&webhook.secret_env);
            names.map(move |name| (target, name.as_str()))
        });
        needed.filter(|(_, name)| std::env::var(name).unwrap_or_default().is_empty())
    }

    /// The names of all targets, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.targets.keys().map(String::as_str)
    }

    /// How many targets there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there is no target.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }
}

/// Where in the file a field is.
struct Place(String);

impl Place {
    fn refuse(&self, field: &str, why: &str) -> RegistryError {
        RegistryError::Field { field: format!("{}.{field}", self.0), why: why.to_owned() }
    }
}

impl WrittenTarget {
    fn meaning(self, place: &Place, unsigned: bool) -> Result<Contract, RegistryError> {
        let gateway_type: GatewayType = self.gateway_type.parse().map_err(|()| {
            place.refuse(
                "gatewayType",
                &format!("is {:?}, and must be sms or push", self.gateway_type),
            )
        })?;
        let gateway_url = self.gateway_url.trim();
        check_url(place, "gatewayUrl", gateway_url)?;
        if gateway_url.contains(['?', '#']) {
            let why = "must end with a path: what is called is below it";
            return Err(place.refuse("gatewayUrl", why));
        }
        let policy = self.policy(place)?;
        check_outcomes(place, gateway_type, &self.terminal_outcomes)?;
        let webhook =
            self.webhook.map(|Object(webhook)| webhook.meaning(place, unsigned)).transpose()?;
        Ok(Contract {
            gateway_type,
            gateway_url: gateway_url.trim_end_matches('/').to_owned(),
            policy,
            terminal_outcomes: self.terminal_outcomes,
            webhook,
        })
    }

    fn policy(&self, place: &Place) -> Result<Policy, RegistryError> {
        let (seconds, attempts) = (self.max_acceptance_seconds, self.max_attempts);
        let policy = match self.policy.as_str() {
            "deadline" => match seconds {
                Some(seconds) if (1..=LONGEST_DEADLINE).contains(&seconds) => {
                    Policy::Deadline { max_acceptance_seconds: seconds }
                }
                _ => {
                    let why = format!(
                        "must be above 0, and at most {LONGEST_DEADLINE}, with the policy deadline"
                    );
                    return Err(place.refuse("maxAcceptanceSeconds", &why));
                }
            },
            "max_attempts" => match attempts {
                Some(attempts) if attempts > 0 => Policy::MaxAttempts { max_attempts: attempts },
                _ => {
                    let why = "must be above 0 with the policy max_attempts";
                    return Err(place.refuse("maxAttempts", why));
                }
            },
            "one_shot" => Policy::OneShot,
            other => {
                let why = format!("is {other:?}, and must be deadline, max_attempts or one_shot");
                return Err(place.refuse("policy", &why));
            }
        };
        if seconds.is_some() && !matches!(policy, Policy::Deadline { .. }) {
            return Err(place.refuse("maxAcceptanceSeconds", "goes with the policy deadline only"));
        }
        if attempts.is_some() && !matches!(policy, Policy::MaxAttempts { .. }) {
            return Err(place.refuse("maxAttempts", "goes with the policy max_attempts only"));
        }
        Ok(policy)
    }
}

impl WrittenWebhook {
    fn meaning(self, place: &Place, unsigned: bool) -> Result<Webhook, RegistryError> {
        check_url(place, "webhook.url", &self.url)?;
        let secret_env = self.secret_env.filter(|name| !name.trim().is_empty());
        if secret_env.is_none() && !unsigned {
            let why = "is missing: name the variable with the secret, or set allowUnsignedWebhooks";
            return Err(place.refuse("webhook.secretEnv", why));
        }
        for (field, headers) in
            [("webhook.headers", &self.headers), ("webhook.headersEnv", &self.headers_env)]
        {
            for name in headers.keys() {
                if reqwest::header::HeaderName::from_bytes(name.as_bytes()).is_err() {
                    return Err(place.refuse(field, &format!("{name:?} is no header")));
                }
            }
        }
        for (name, value) in &self.headers {
            if reqwest::header::HeaderValue::from_str(value).is_err() {
                return Err(
                    place.refuse("webhook.headers", &format!("the value of {name:?} is none"))
                );
            }
        }
        Ok(Webhook {
            url: self.url,
            headers: self.headers,
            headers_env: self.headers_env,
            secret_env,
        })
    }
}

fn check_url(place: &Place, field: &str, url: &str) -> Result<(), RegistryError> {
    let why = "must be http:// or https:// with a host";
    match reqwest::Url::parse(url) {
        Ok(url) if ["http", "https"].contains(&url.scheme()) && url.has_host() => Ok(()),
        _ => Err(place.refuse(field, why)),
    }
}

fn check_outcomes(
    place: &Place,
    gateway_type: GatewayType,
    outcomes: &[String],
) -> Result<(), RegistryError> {
    let field = "terminalOutcomes";
    if outcomes.is_empty() {
        return Err(place.refuse(field, "must not be empty"));
    }
    let mut seen = HashSet::new();
    for outcome in outcomes {
        if !gateway_type.outcomes().contains(&outcome.as_str()) {
            let known = gateway_type.outcomes().join(", ");
            let kind = gateway_type.as_str();
            let why = format!("has {outcome:?}, and a gateway of type {kind} knows: {known}");
            return Err(place.refuse(field, &why));
        }
        if !seen.insert(outcome) {
            return Err(place.refuse(field, &format!("has {outcome:?} twice")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn target() -> Value {
        json!({
            "submissionTarget": "otp",
            "gatewayType": "sms",
            "gatewayUrl": "http://gateway:9000/",
            "policy": "max_attempts",
            "maxAttempts": 3,
            "terminalOutcomes": ["invalid_recipient"],
        })
    }

    fn parse(target: &Value) -> Result<Registry, RegistryError> {
        Registry::parse(&json!({ "targets": [target] }).to_string())
    }

    fn with(changes: &Value) -> Value {
        let mut target = target();
        for (name, value) in changes.as_object().unwrap() {
            target[name] = value.clone();
        }
        target
    }

    #[test]
    fn a_target_is_found_by_its_name() {
        let registry = parse(&target()).unwrap();
        let contract = registry.contract("otp").unwrap();
        assert_eq!(contract.policy, Policy::MaxAttempts { max_attempts: 3 });
        assert_eq!(contract.gateway_url, "http://gateway:9000");
        assert!(registry.contract("OTP").is_none(), "names are told apart by case");
    }

    #[test]
    fn whole_lines_may_be_comments() {
        let text = format!("# the targets\n{{\n  # one\n \"targets\": [{}]}}\n", target());
        assert_eq!(Registry::parse(&text).unwrap().len(), 1);
        let told = Registry::parse("# a\n{ nonsense").unwrap_err().to_string();
        assert!(told.contains("line 2"), "{told}");
    }

    #[test]
    fn every_refusal_names_the_field() {
        let refused = |changes: Value| parse(&with(&changes)).unwrap_err().to_string();
        for (changes, told) in [
            (json!({"submissionTarget": " "}), "targets[0].submissionTarget"),
            (json!({"gatewayType": "fax"}), "targets[0].gatewayType is \"fax\""),
            (json!({"gatewayUrl": "ftp://x"}), "targets[0].gatewayUrl must be http://"),
            (json!({"gatewayUrl": "http://"}), "targets[0].gatewayUrl must be http://"),
            (json!({"policy": "often"}), "targets[0].policy is \"often\""),
            (json!({"maxAttempts": 0}), "targets[0].maxAttempts must be above 0"),
            (json!({"maxAttempts": null}), "targets[0].maxAttempts must be above 0"),
            (json!({"maxAcceptanceSeconds": 5}), "targets[0].maxAcceptanceSeconds goes with"),
            (json!({"policy": "one_shot"}), "targets[0].maxAttempts goes with"),
            (json!({"policy": "deadline"}), "targets[0].maxAcceptanceSeconds must be above 0"),
            (json!({"terminalOutcomes": []}), "targets[0].terminalOutcomes must not be empty"),
            (
                json!({"terminalOutcomes": ["unregistered_token"]}),
                "targets[0].terminalOutcomes has",
            ),
            (
                json!({"terminalOutcomes": ["invalid_message", "invalid_message"]}),
                "targets[0].terminalOutcomes has \"invalid_message\" twice",
            ),
            (json!({"webhook": {"url": "http://w"}}), "targets[0].webhook.secretEnv is missing"),
            (json!({"webhook": {"url": "w", "secretEnv": "S"}}), "targets[0].webhook.url must be"),
            (
                json!({"webhook": {"url": "http://w", "secretEnv": "S", "headers": {"a b": "c"}}}),
                "targets[0].webhook.headers \"a b\"",
            ),
        ] {
            let message = refused(changes.clone());
            assert!(message.starts_with(told), "{changes}: {message}");
        }
        let twice = json!({ "targets": [target(), target()] }).to_string();
        let message = Registry::parse(&twice).unwrap_err().to_string();
        assert!(
            message.starts_with("targets[1].submissionTarget \"otp\" is there twice"),
            "{message}"
        );
    }

    #[test]
    fn unknown_and_missing_fields_are_refused_by_name() {
        let told = |text: &str| Registry::parse(text).unwrap_err().to_string();
        assert!(told(r#"{"targets": [], "more": 1}"#).contains("more"));
        let extra = told(&json!({"targets": [with(&json!({"extra": 1}))]}).to_string());
        assert!(extra.contains("targets[0].extra"), "{extra}");
        let wrong = told(&json!({"targets": [with(&json!({"maxAttempts": "3"}))]}).to_string());
        assert!(wrong.contains("targets[0].maxAttempts"), "{wrong}");
        let mut short = target();
        short.as_object_mut().unwrap().remove("gatewayUrl");
        let missing = told(&json!({"targets": [short]}).to_string());
        assert!(missing.contains("targets[0]") && missing.contains("gatewayUrl"), "{missing}");
        assert!(told(r#"{"targets": []} trailing"#).contains("trailing"));
    }

    #[test]
    fn unsigned_webhooks_are_allowed_only_where_the_registry_says_so() {
        let target = with(&json!({"webhook": {"url": "http://w"}}));
        let text = json!({"allowUnsignedWebhooks": true, "targets": [target]}).to_string();
        let registry = Registry::parse(&text).unwrap();
        assert_eq!(registry.contract("otp").unwrap().webhook.as_ref().unwrap().secret_env, None);
    }
}
