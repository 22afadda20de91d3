//! Comes in: asks for the passphrase at the screen, or makes a store and says which places there are beside it.

use keyless_core::{Code, Error};
use keyless_daemon::{
    Config, NewSource, Places, declare_source,
    vault::{Factor, Passphrase, SourceType, Vault},
};
use zeroize::Zeroizing;

use super::{
    super::{open_store, unlock_vault},
    LOOK,
    door::{Act, Door},
    office::Office,
    screen::{Screen, next_press},
};
use crate::{args::FactorArgs, prompt};

/// The operator's place; nothing when the person leaves. What opens the store may also be a file. `why` says what it is
/// asked for once more.
pub(super) async fn come_in(factor: &FactorArgs, why: &str) -> Result<Option<Office>, Error> {
    if prompt::factor_file(factor).is_some() {
        let (places, vault) = unlock_vault(factor).await?;
        return Office::open(places, vault).await.map(Some);
    }
    let places = Places::from_environment()?;
    let mut door = match keyless_daemon::refuse_existing_store(&places).await {
        Ok(()) => Door::first_run(),
        Err(error) if error.code() == Code::AlreadyInitialised => Door::unlock(),
        // Who was inside comes back to the screen that they left, once the file can be read again.
        Err(error) if error.code() == Code::ConfigInvalid && !why.is_empty() => Door::unlock(),
        Err(error) => return Err(error),
    };
    why.clone_into(&mut door.fault);
    let Some(vault) = pass(&places, door).await? else { return Ok(None) };
    Office::open(places, vault).await.map(Some)
}

/// Shows the door until it is open; nothing when the person leaves.
async fn pass(places: &Places, mut door: Door) -> Result<Option<Vault>, Error> {
    let (mut screen, mut made) = (Screen::enter()?, None);
    loop {
        screen.draw_door(&door)?;
        let Some(press) = next_press(LOOK)? else { continue };
        match door.press(press) {
            None => {}
            Some(Act::Enter) => {
                return match made {
                    Some(vault) => with_sources(vault, places).await.map(Some),
                    None => Ok(None),
                };
            }
            Some(Act::Leave) => return Ok(None),
            Some(Act::Create { passphrase, places: kinds }) => {
                match create(places, passphrase, &kinds).await {
                    Ok((vault, phrase)) => {
                        made = Some(vault);
                        door.show_phrase(phrase);
                    }
                    Err(error) => door.refuse(&error),
                }
            }
            Some(Act::Unlock(passphrase)) => match unlock(places, passphrase).await {
                Ok(vault) => return Ok(Some(vault)),
                Err(error) if can_be_mended(&error) => door.refuse(&error),
                Err(error) => return Err(error),
            },
        }
    }
}

async fn unlock(places: &Places, passphrase: Zeroizing<String>) -> Result<Vault, Error> {
    let (_, store) = open_store().await?;
    let factor = Factor::Passphrase(Passphrase::new(passphrase));
    with_sources(keyless_daemon::open_vault(store, factor).await?, places).await
}

async fn with_sources(vault: Vault, places: &Places) -> Result<Vault, Error> {
    let config = Config::load(&places.config_file())?;
    let config = keyless_daemon::check_agreed(places, &vault, config).await?;
    keyless_daemon::with_sources(vault, places, &config)
}

/// Whether the same door opens once the person has typed it right, or saved the file that they have in an editor.
fn can_be_mended(error: &Error) -> bool {
    matches!(error.code(), Code::ConfigInvalid | Code::SourcesInvalid | Code::WrongPassphrase)
}

async fn create(
    places: &Places,
    passphrase: Zeroizing<String>,
    kinds: &[SourceType],
) -> Result<(Vault, Zeroizing<String>), Error> {
    declare(places, kinds)?;
    let store = keyless_daemon::create_store(places).await?;
    let (vault, phrase) = Vault::create(store, Passphrase::new(passphrase)).await?;
    Ok((vault, phrase.expose_to_operator()))
}

/// Writes `sources.toml`, unless somebody has.
fn declare(places: &Places, kinds: &[SourceType]) -> Result<(), Error> {
    if places.sources_file().exists() {
        return Ok(());
    }
    kinds.iter().try_for_each(|kind| declare_source(places, &NewSource::plain(*kind)))
}
