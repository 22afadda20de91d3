//! What the operator does to a secret: values, asked for or not, other metadata, a question to its service.

use keyless_core::{
    ApproveOnUse, Code, Destination, EgressRule, Error, SafeText, SecretPath, approval::Asked,
};
use keyless_vault::{EnvForm, EnvName, Metadata, NewSecret, Secret};
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

use super::{
    super::{
        Operator,
        given::{Given, Occasion},
        woven::password_alone,
    },
    Approver, keep_declared,
};
use crate::{
    agreed::AgreedBy,
    liveness::Checked,
    places::Places,
    providers::{narrow, providers},
};

impl Approver {
    /// Gives a secret a value that no agent has asked for.
    ///
    /// Fails with [`Code::StateUnfit`] when a first value would overwrite one, with [`Code::SecretExists`] when a new secret
    /// is there already, and as the vault does.
    pub(crate) async fn give(
        &self,
        path: &SecretPath,
        occasion: Occasion,
        given: Given,
        value: Zeroizing<Vec<u8>>,
    ) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        self.store(path, occasion, given, value, None).await
    }

    /// Puts `after` in place of a secret's metadata, which was `before` when it was shown.
    ///
    /// Fails with [`Code::ChangedMeanwhile`] when it was changed meanwhile, and as the vault does.
    pub(crate) async fn change(
        &self,
        path: &SecretPath,
        before: &Metadata,
        after: Metadata,
    ) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        let mut after = after;
        if before.egress.is_none()
            && let Some(rule) = after.egress.take()
        {
            after.egress = self.narrowed(path, rule, None).await?;
        }
        self.operator.set(path, before, after).await
    }

    /// What hosts that a person names come to: in the places of a known service's tokens alone.
    async fn rule_for(
        &self,
        path: &SecretPath,
        to: Vec<Destination>,
        value: Option<&Zeroizing<Vec<u8>>>,
    ) -> Result<Option<EgressRule>, Error> {
        if to.is_empty() {
            return Ok(None);
        }
        self.narrowed(path, EgressRule::to(to), value).await
    }

    async fn narrowed(
        &self,
        path: &SecretPath,
        mut rule: EgressRule,
        value: Option<&Zeroizing<Vec<u8>>>,
    ) -> Result<Option<EgressRule>, Error> {
        let Some(places) = self.places.clone() else { return Ok(Some(rule)) };
        let voucher = self.operator.vault.agreement_voucher();
        let known = spawn_blocking(move || providers(&places, AgreedBy::Vault(&voucher))).await;
        let known = known.map_err(|_| Error::from(Code::Internal))??;
        narrow(&known, path, &mut rule, value.map(|value| value.as_slice()));
        Ok(Some(rule))
    }

    /// Asks the service of a stored value whether it takes it.
    pub(crate) async fn check(&self, places: &Places, path: &SecretPath) -> Result<Checked, Error> {
        self.operator.check(places, path, None).await
    }

    /// Puts the value in place, and what the secret lacks to be used; with a first one that was `asked` for, what is
    /// declared as well.
    pub(super) async fn store(
        &self,
        path: &SecretPath,
        occasion: Occasion,
        Given { to, env, allow_weak }: Given,
        value: Zeroizing<Vec<u8>>,
        asked: Option<&Asked>,
    ) -> Result<(), Error> {
        let operator = self.operator.again(allow_weak);
        let asked = asked.filter(|_| occasion == Occasion::First);
        match operator.vault.show(path).await {
            Ok(_) if occasion == Occasion::New => {
                Err(Error::with(Code::SecretExists, SafeText::default().and(path)))
            }
            Ok(Secret { version: Some(_), .. }) if occasion == Occasion::First => Err(Error::with(
                Code::StateUnfit,
                SafeText::words("it has a value by now; another one is a rotation"),
            )),
            Ok(Secret { metadata, .. }) => {
                let policy = asked.map(Asked::policy).unwrap_or_default();
                // What a service's token looks like is said of what is sent, not of an address around it.
                let sent = password_alone(metadata.env_form.as_ref(), value.clone())?;
                let rule = self.rule_for(path, to, Some(&sent)).await?;
                let binding = Binding { rule, env, policy, form: None };
                replace(&operator, path, metadata, binding, value).await
            }
            // What is to get another value, and has gone meanwhile, is not made anew without its hosts.
            Err(error) if error.code() == Code::SecretNotFound && occasion != Occasion::Another => {
                let rule = self.rule_for(path, to, Some(&value)).await?;
                let mut metadata = Metadata::default();
                if let Some(asked) = asked {
                    keep_declared(&mut metadata, asked);
                }
                bind(&mut metadata, Binding { rule, env, ..Binding::default() });
                operator.add(path, metadata, Some(value)).await
            }
            Err(error) => Err(error),
        }
    }
}

impl Operator {
    /// Gives a secret its first value: adds it, or gives it to one that has none yet. That one keeps what its owner said,
    /// and takes hosts and a variable of `metadata` where it has none.
    ///
    /// Fails with [`Code::SecretExists`] when it has a value, and as the vault does.
    pub async fn provide(
        &self,
        path: &SecretPath,
        metadata: Metadata,
        value: Zeroizing<Vec<u8>>,
    ) -> Result<(), Error> {
        let new = NewSecret { path: path.clone(), metadata, value: Some(value) };
        self.provide_all(vec![new]).await.pop().unwrap_or_else(|| Err(Code::Internal.into()))
    }

    /// Gives many secrets their first values, as [`Operator::provide`] does; answers in their order. Those that are added
    /// are all there, or none is.
    pub async fn provide_all(&self, given: Vec<NewSecret>) -> Vec<Result<(), Error>> {
        let mut answers = Vec::with_capacity(given.len());
        let (mut new, mut places) = (Vec::new(), Vec::new());
        for (place, one) in given.into_iter().enumerate() {
            let known = self.vault.show(&one.path).await.ok().filter(Secret::lacks_value);
            let answer = match (known, one) {
                (Some(known), NewSecret { path, metadata, value: Some(value) }) => {
                    let Metadata { egress: rule, env, env_form: form, .. } = metadata;
                    let bound = Binding { rule, env, form, policy: ApproveOnUse::Never };
                    Box::pin(replace(self, &path, known.metadata, bound, value)).await
                }
                (_, one) => {
                    let judged = self.refuse_new(&one).await;
                    if judged.is_ok() {
                        new.push(one);
                        places.push(place);
                    }
                    judged
                }
            };
            answers.push(answer);
        }
        for (place, added) in places.into_iter().zip(self.add_judged(new).await) {
            answers[place] = added;
        }
        answers
    }
}

/// What a secret gets with a value, where it lacks it.
#[derive(Default)]
struct Binding {
    /// Where and how the value may go.
    rule: Option<EgressRule>,
    /// The variable for its placeholder.
    env: Option<EnvName>,
    /// What stands around that there.
    form: Option<EnvForm>,
    /// How often a person is asked at least.
    policy: ApproveOnUse,
}

/// Binds the secret and gives it the value; neither when one of them can't be done.
async fn replace(
    operator: &Operator,
    path: &SecretPath,
    before: Metadata,
    binding: Binding,
    value: Zeroizing<Vec<u8>>,
) -> Result<(), Error> {
    if let (Some(there), Some(other)) = (&before.env_form, &binding.form)
        && there != other
    {
        let words = "another address stands around its value; --env-form none takes that back";
        return Err(Error::with(Code::StateUnfit, SafeText::words(words)));
    }
    // Who gives a form as well has taken the password out of it.
    let value = match &binding.form {
        Some(_) => value,
        None => password_alone(before.env_form.as_ref(), value)?,
    };
    let mut metadata = before.clone();
    let bound = bind(&mut metadata, binding);
    // A host that was mistyped beside a value that is refused can still be corrected.
    operator.refuse_weak(path, &metadata, &value)?;
    if bound {
        operator.set(path, &before, metadata.clone()).await?;
    }
    if let Err(error) = operator.rotate_to(path, value).await {
        if bound {
            // What somebody has changed since stays.
            let _ = operator.set(path, &metadata, before).await;
        }
        return Err(error);
    }
    Ok(())
}

/// Adds what a secret lacks to be used; what its owner said before stays. Whether anything changed.
fn bind(metadata: &mut Metadata, binding: Binding) -> bool {
    let Binding { rule, env, form, policy } = binding;
    let adds_rule = metadata.egress.is_none() && rule.is_some();
    let adds_env = metadata.env.is_none() && env.is_some();
    if adds_rule {
        metadata.egress = rule;
    }
    if adds_env {
        metadata.env = env;
    }
    let adds_form = metadata.env_form.is_none() && form.is_some();
    if adds_form {
        metadata.env_form = form;
    }
    let tightens = policy > metadata.approve_on_use;
    if tightens {
        metadata.approve_on_use = policy;
    }
    adds_rule || adds_env || adds_form || tightens
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::scene::Scene;

    fn path() -> SecretPath {
        SecretPath::parse("team/a/key").unwrap()
    }

    async fn give(approver: &Approver, occasion: Occasion, to: &str) -> Result<(), Code> {
        let given = Given { to: vec![Destination::parse(to).unwrap()], ..Given::default() };
        let value = Zeroizing::new(format!("Qm7-xT4w9ZrK2bVp-{to}").into_bytes());
        approver.give(&path(), occasion, given, value).await.map_err(|error| error.code())
    }

    #[tokio::test]
    async fn a_secret_is_added_once_and_overwritten_only_as_such() {
        let scene = Scene::new().await;
        let approver = Approver::new(Arc::clone(&scene.vault));
        // Purged while the dialog was open, say: it is not made anew, bound to nothing that was said of it.
        let gone = give(&approver, Occasion::Another, "a.test").await;
        assert_eq!(gone, Err(Code::SecretNotFound));
        give(&approver, Occasion::New, "a.test").await.unwrap();
        assert_eq!(give(&approver, Occasion::New, "b.test").await, Err(Code::SecretExists));
        assert_eq!(give(&approver, Occasion::First, "b.test").await, Err(Code::StateUnfit));
        give(&approver, Occasion::Another, "b.test").await.unwrap();
        let secret = scene.vault.show(&path()).await.unwrap();
        assert_eq!(secret.version, Some(2));
        let to = secret.metadata.egress.unwrap().to;
        assert_eq!(to, [Destination::parse("a.test").unwrap()], "what its owner said stays");
    }

    /// Who takes an address out of a file loses no part of it.
    #[tokio::test]
    async fn what_stands_around_a_value_is_kept_with_it() {
        let Scene { vault, .. } = &Scene::new().await;
        let operator = Operator::with_log(Arc::clone(vault), crate::operator::audit_log(vault));
        operator.add(&path(), Metadata::default(), None).await.unwrap();
        let provide = async |form: &str| {
            let env_form = Some(EnvForm::parse(form).unwrap());
            let metadata = Metadata { env_form, ..Metadata::default() };
            let value = Zeroizing::new(b"Qm7-xT4w9ZrK2bVp".to_vec());
            operator.provide(&path(), metadata, value).await
        };
        let shop = "postgres://app:{}@db.example.com/shop";
        provide(shop).await.unwrap();
        let form = vault.show(&path()).await.unwrap().metadata.env_form;
        assert_eq!(form.as_ref().map(EnvForm::as_str), Some(shop));
        // One that waits for a value in another address gets no value in this one.
        let other = SecretPath::parse("team/b/key").unwrap();
        operator
            .add(&other, Metadata { env_form: form, ..Metadata::default() }, None)
            .await
            .unwrap();
        let metadata = Metadata {
            env_form: Some(EnvForm::parse("postgres://app:{}@db2.example.com/x").unwrap()),
            ..Metadata::default()
        };
        let value = Zeroizing::new(b"Qm7-xT4w9ZrK2bVp".to_vec());
        let refused = operator.provide(&other, metadata, value).await.unwrap_err();
        assert_eq!(refused.code(), Code::StateUnfit);
    }

    /// At the page, the screen and `keyless approve`, as at `keyless secret rotate`.
    #[tokio::test]
    async fn of_a_whole_address_the_password_is_kept() {
        let scene = Scene::new().await;
        let approver = Approver::new(Arc::clone(&scene.vault));
        let env_form = Some(EnvForm::parse("postgres://app:{}@db.example.com/shop").unwrap());
        let metadata = Metadata { env_form, ..Metadata::default() };
        approver.operator.add(&path(), metadata, None).await.unwrap();
        let give = async |occasion, value: &str| {
            let value = Zeroizing::new(value.as_bytes().to_vec());
            let given = approver.give(&path(), occasion, Given::default(), value).await;
            given.map_err(|error| error.code())
        };
        for (occasion, password) in
            [(Occasion::First, "Qm7-xT4w9ZrK2bVp"), (Occasion::Another, "Hn3-yU8e5GsL6cDq")]
        {
            let whole = format!("postgres://app:{password}@db.example.com/shop");
            give(occasion, &whole).await.unwrap();
            let holds = approver.operator.holds(&path(), password.as_bytes()).await.unwrap();
            assert_eq!(holds, Some(true), "{password}");
        }
        let other = give(Occasion::Another, "postgres://app:Zr8-pW1q7NbT5kXm@db2.test/shop").await;
        assert_eq!(other, Err(Code::ValueRefused));
    }

    #[tokio::test]
    async fn of_two_edits_the_later_one_is_told() {
        let scene = Scene::new().await;
        let approver = Approver::new(Arc::clone(&scene.vault));
        give(&approver, Occasion::New, "a.test").await.unwrap();
        let before = scene.vault.show(&path()).await.unwrap().metadata;
        let after =
            |words: &str| Metadata { description: Some(words.to_owned()), ..before.clone() };
        approver.change(&path(), &before, after("first")).await.unwrap();
        let late = approver.change(&path(), &before, after("second")).await.unwrap_err();
        assert!(
            late.code() == Code::ChangedMeanwhile && late.message().contains("meanwhile"),
            "{late:?}"
        );
        let now = scene.vault.show(&path()).await.unwrap().metadata;
        assert_eq!(now.description.as_deref(), Some("first"));
    }
}
