//! What no action sees of the machine, and no template is read from.

use std::path::PathBuf;

use keyless_core::Error;

use crate::{
    broker::Broker, config::Config, homes::files_of_all_homes,
    passphrase::remembered_passphrase_files, places::Places,
};

/// Keyless's own files, of this home and all others that are known, those with its keys and passwords, those that opened the store, and those that values are read from,
/// wherever they lie; and what the operator hides from a run that is open.
pub(in crate::nl) async fn concealed(
    places: &Places,
    broker: &Broker,
) -> Result<Vec<PathBuf>, Error> {
    let mut all = files_of_all_homes(places);
    all.extend(Config::load(&places.config_file())?.files_with_credentials());
    all.extend(remembered_passphrase_files(places));
    all.extend(broker.value_files().await?);
    all.extend(broker.hidden().all());
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{nl::scene::Served, passphrase::remember_passphrase_file};

    #[tokio::test]
    async fn what_opens_the_store_and_what_a_run_hides_is_out_of_sight() {
        let served = Served::new().await;
        let (places, broker) = (&served.nl.places, &served.nl.broker);
        let (factor, hidden) = (PathBuf::from("/etc/pass"), PathBuf::from("/etc/plan"));
        remember_passphrase_file(places, &factor);
        let run = broker.hidden().hide(vec![hidden.clone()]);
        let seen = concealed(places, broker).await.unwrap();
        assert!(seen.contains(&places.all()[0]) && seen.contains(&factor), "{seen:?}");
        assert!(seen.contains(&hidden), "{seen:?}");
        drop(run);
        assert!(!concealed(places, broker).await.unwrap().contains(&hidden));
    }
}
