//! `keyless catalog`: the tokens of well-known services.

mod project;
mod urls;

use std::{env, fmt::Write as _, fs, path::PathBuf, process::ExitCode};

use keyless_core::{Code, Error, Exit, SafeText};
use keyless_daemon::{
    AgreedBy, Places, counted, path_unusable,
    vault::{Provider, ProviderFault, Providers, Tier, Variant, read_provider},
};
use serde_json::json;

use super::approve::visible;
use crate::{
    args::{CatalogCommand, CatalogListArgs, CatalogShowArgs, CatalogValidateArgs},
    ui::{Ui, table},
};

pub(super) async fn run(ui: &Ui, command: CatalogCommand) -> Result<ExitCode, Error> {
    let places = Places::from_environment()?;
    let providers = || keyless_daemon::project_providers(&places, &here(), AgreedBy::File);
    match command {
        CatalogCommand::AddUrl(args) => return urls::add(ui, &places, args).await,
        CatalogCommand::Forget(args) => urls::forget(ui, &places, &args)?,
        CatalogCommand::Pin(args) => urls::pin(ui, &places, args)?,
        CatalogCommand::Refresh(args) => return urls::refresh(ui, &places, &args).await,
        CatalogCommand::Remove(args) => urls::remove(ui, &places, &args)?,
        CatalogCommand::Status => urls::status(ui, &places)?,
        CatalogCommand::Trust(args) => return project::trust(ui, &places, &args),
        CatalogCommand::List(args) => list(ui, &providers()?, &args),
        CatalogCommand::Show(args) => return show(ui, &providers()?, &args),
        CatalogCommand::Validate(args) => {
            for file in &args.files {
                fs::metadata(file).map_err(|error| path_unusable(file, &error))?;
            }
            return Ok(validate(ui, &providers()?, &args));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(ui: &Ui, providers: &Providers, args: &CatalogListArgs) {
    warn_of_faults(ui, providers);
    let wanted = |provider: &Provider, variant: &Variant| {
        let text = args.containing.as_deref().unwrap_or_default().to_lowercase();
        [&provider.provider_id, &provider.display_name, &variant.id, &variant.description]
            .iter()
            .any(|field| field.to_lowercase().contains(&text))
    };
    let (mut rows, mut data) = (Vec::new(), Vec::new());
    for (tier, provider) in providers.iter() {
        for variant in provider.variants.iter().filter(|variant| wanted(provider, variant)) {
            rows.push(vec![
                provider.provider_id.clone(),
                variant.id.clone(),
                variant.env_var.as_ref().map(ToString::to_string).unwrap_or_default(),
                destinations(variant),
                word(tier).to_owned(),
            ]);
            data.push(json!({
                "provider": provider.provider_id,
                "pattern": variant.id,
                "description": variant.description,
                "env_var": variant.env_var,
                "to": variant.egress.as_ref().map(|egress| &egress.to),
                "tier": tier,
            }));
        }
    }
    let words = match &args.containing {
        Some(text) if rows.is_empty() => {
            format!(
                "Nothing in the catalog has {} in it; keyless catalog list shows all.\n",
                visible(text)
            )
        }
        _ => table(&["PROVIDER", "PATTERN", "VARIABLE", "GOES TO", "FROM"], &rows),
    };
    ui.answer("catalog list", &json!({ "patterns": data }), &words);
}

fn show(ui: &Ui, providers: &Providers, args: &CatalogShowArgs) -> Result<ExitCode, Error> {
    let found = match providers.provider(&args.id) {
        Some(provider) => Some((provider, provider.variants.iter().collect::<Vec<_>>())),
        None => providers.variant(&args.id).map(|(provider, variant)| (provider, vec![variant])),
    };
    let Some((provider, variants)) = found else {
        warn_of_faults(ui, providers);
        let words = SafeText::words("neither a provider nor a pattern: ").as_they_wrote(&args.id);
        return Err(Error::with(Code::ProviderUnknown, words));
    };
    let mut words = String::new();
    for variant in &variants {
        describe(&mut words, provider, variant);
    }
    let data = json!({ "provider": provider.provider_id, "variants": variants });
    ui.answer("catalog show", &data, &words);
    Ok(ExitCode::SUCCESS)
}

fn describe(words: &mut String, provider: &Provider, variant: &Variant) {
    let (name, about) = (one_line(&provider.display_name), one_line(&variant.description));
    let _ = writeln!(words, "{name} · {}: {about}", variant.id);
    let mut line = |name: &str, text: &str| {
        let _ = writeln!(words, "  {name:<10} {}", one_line(text));
    };
    if let Some(page) = variant.retrieval.page() {
        line("page:", page);
    }
    if let Some(docs) = &variant.retrieval.docs_url {
        line("docs:", docs);
    }
    for (number, step) in variant.retrieval.steps.iter().enumerate() {
        line(if number == 0 { "steps:" } else { "" }, &format!("{}. {step}", number + 1));
    }
    if let Some(notes) = &variant.retrieval.notes {
        line("note:", notes);
    }
    if let Some(hint) = &variant.format_hint {
        line("format:", hint);
    }
    if let Some(format) = &variant.format_regex {
        line("looks like:", format);
    }
    line("goes to:", &destinations(variant));
    if let Some(egress) = &variant.egress {
        if !egress.locations.is_empty() {
            let places = egress.locations.iter().map(ToString::to_string).collect::<Vec<_>>();
            line("stands in:", &places.join(", "));
        }
        if let Some(shape) = &egress.placeholder {
            line("stand-in:", &json!(shape).to_string());
        }
    }
    if let Some(name) = &variant.env_var {
        line("variable:", name.as_str());
    }
    match (&variant.liveness, &variant.no_liveness) {
        (Some(liveness), _) => {
            let method = json!(liveness.method);
            let method = method.as_str().unwrap_or_default();
            line("check:", &format!("{method} {}", liveness.url));
            if !liveness.hosts.is_empty() {
                let among = liveness.hosts.iter().map(ToString::to_string).collect::<Vec<_>>();
                line("", &format!("{{host}}: the secret's own among {}", among.join(", ")));
            }
            for (name, value) in &liveness.headers {
                line("", &format!("{name}: {value}"));
            }
            if let Some(body) = &liveness.body {
                line("", &body.to_string());
            }
        }
        (None, why) => line("no check:", why.as_deref().unwrap_or("none is known")),
    }
    if let Some(rotation) = &variant.rotation {
        let method = rotation.method;
        line("renew:", &format!("every {} days, {method}", rotation.every_days));
        for more in [&rotation.guide_url, &rotation.notes].into_iter().flatten() {
            line("", more);
        }
    }
    words.push('\n');
}

fn validate(ui: &Ui, providers: &Providers, args: &CatalogValidateArgs) -> ExitCode {
    let mut faults: Vec<(String, String)> = Vec::new();
    let mut good = 0;
    if args.files.is_empty() {
        let fault = |fault: &ProviderFault| (fault.file.display().to_string(), fault.why.clone());
        warn_of(ui, &providers.left_out);
        faults.extend(providers.faults.iter().chain(&providers.pattern_faults).map(fault));
        good = providers.iter().count();
    }
    let is_patterns = |file: &&PathBuf| file.extension().is_some_and(|end| end == "toml");
    for file in args.files.iter().filter(is_patterns) {
        let read = Providers::bundled().with_pattern_file(file);
        let told = read.pattern_faults.iter().chain(&read.pattern_notes);
        let before = faults.len();
        faults.extend(told.map(|fault| (fault.file.display().to_string(), fault.why.clone())));
        good += usize::from(faults.len() == before);
    }
    for file in args.files.iter().filter(|file| !is_patterns(file)) {
        match read_provider(file) {
            Ok(_) => good += 1,
            Err(why) => faults.push((file.display().to_string(), why)),
        }
    }
    let mut words = format!("{} can be used.\n", counted(good, "provider"));
    for (file, why) in &faults {
        let _ = writeln!(words, "fault: {file}: {why}");
    }
    let listed: Vec<_> =
        faults.iter().map(|(file, why)| json!({ "file": file, "why": why })).collect();
    let outcome = if faults.is_empty() { Ok(()) } else { Err(Exit::Usage) };
    let data = json!({ "usable": good, "faults": listed });
    ui.conclude("catalog validate", outcome, &data, &words)
}

/// The folder whose project is meant; one that is gone is in no project.
pub(super) fn here() -> PathBuf {
    env::current_dir().unwrap_or_default()
}

/// Says which files of the catalog are left out.
pub(super) fn warn_of_faults(ui: &Ui, providers: &Providers) {
    warn_of(ui, &providers.faults);
    warn_of(ui, &providers.left_out);
    warn_of(ui, &providers.pattern_faults);
    for file in &providers.unagreed {
        ui.warn(format!(
            "{}: {}. Next: keyless unlock shows it and asks",
            file.file.display(),
            file.why
        ));
    }
}

fn warn_of(ui: &Ui, files: &[ProviderFault]) {
    for file in files {
        ui.warn(format!("{}: {}; it is left out", file.file.display(), file.why));
    }
}

/// A catalog's text, which may come from an address: lines of its own would look like ours.
fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

fn destinations(variant: &Variant) -> String {
    let Some(egress) = &variant.egress else { return "(not in requests)".to_owned() };
    let hint = egress.to_hint.iter().map(|hint| format!("({hint})"));
    egress.to.iter().map(ToString::to_string).chain(hint).collect::<Vec<_>>().join(", ")
}

fn word(tier: Tier) -> &'static str {
    match tier {
        Tier::Bundled => "bundled",
        Tier::Project => "project",
        Tier::Unagreed => "unagreed",
        Tier::Url => "url",
        Tier::User => "user",
    }
}
