//! What runs for each type of action, and what enters it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use keyless_core::{
    Code, Destination, Error, Handle, SafeText, TemplatePart,
    action::{Action, Deed, TemplateSource},
    parse_template,
};
use zeroize::Zeroizing;

use crate::{
    executor::Work,
    kept::{self, RENDERED_MODE, Rendered, SECURE_DIRECTORY, Shelf},
    material::{Material, Materials},
    ports::{Command, Entry, Exchanged, File, Known, Reach},
    script::{Reading, Stand, prelude, variable},
    sdk::{Draft, Providers, Wanted},
};

/// The mode of a file for one command.
const TEMPORARY_MODE: u32 = 0o400;

/// A command, what it reads, and what must not come back from it.
pub(crate) struct Prepared {
    pub(crate) command: Command,
    pub(crate) input: Option<Zeroizing<Vec<u8>>>,
    pub(crate) known: Vec<Known>,
    pub(crate) warnings: Vec<String>,
}

/// Finds what is wrong with an action, `act_…`, before anything is opened for it; of a call of a service gives what
/// was checked, which is what is sent.
pub(crate) fn check(
    deed: &Deed,
    action_id: &str,
    providers: &Providers,
) -> Result<Option<Draft>, Error> {
    match deed {
        Deed::Exec { template } => fits(template)?,
        Deed::InjectStdin { command, .. } | Deed::InjectTempfile { command, .. } => fits(command)?,
        Deed::Template { output_path, .. } => {
            kept::output_path(output_path.as_deref(), action_id)?;
        }
        Deed::Delegate { delegated_action, .. } => {
            check(&delegated_action.deed, action_id, providers)?;
        }
        Deed::SdkProxy { provider, service, operation, parameters, .. } => {
            let parameters = parameters.clone();
            return providers.draft(Wanted { provider, service, operation, parameters }).map(Some);
        }
    }
    Ok(None)
}

/// A script is one argument of its shell, and the kernel takes none of this many bytes (`MAX_ARG_STRLEN`).
const MAX_SCRIPT: usize = 128 << 10;
/// What a handle adds to it at most, in its place and in the first line.
const OF_HANDLE: usize = 128;

fn fits(template: &str) -> Result<(), Error> {
    let reading = Reading::of(template)?;
    let script = reading.script(|_| Ok(Stand::Variable(0)))?;
    // Before anything is taken for it: it could not begin.
    if script.len() + reading.handles() * OF_HANDLE >= MAX_SCRIPT {
        let words = "a command has less than 128 KiB, with 128 bytes for each placeholder; \
                     give what is long through standard input or a file";
        return Err(Error::with(Code::CommandNotExecutable, SafeText::words(words)));
    }
    Ok(())
}

/// Prepares what runs for an action; `None` when its type runs nothing.
pub(crate) fn prepare(
    work: &Work,
    materials: &Materials,
    shelf: &Shelf,
) -> Result<Option<Prepared>, Error> {
    let mut preparing = Preparing::new(work, materials);
    let (template, files) = match &work.action().deed {
        Deed::Exec { template } => (template, None),
        Deed::InjectStdin { command, secret_ref } => {
            preparing.feed(secret_ref)?;
            (command, None)
        }
        Deed::InjectTempfile { command, file_refs, binary } => {
            (command, Some((file_refs, *binary)))
        }
        Deed::Delegate { .. } | Deed::SdkProxy { .. } | Deed::Template { .. } => return Ok(None),
    };
    let paths = match files {
        Some((file_refs, binary)) => preparing.write_files(file_refs, binary)?,
        None => BTreeMap::new(),
    };
    preparing.write_script(template, &paths)?;
    preparing.add_kept(shelf.named_in(template));
    preparing.finish().map(Some)
}

struct Preparing<'a> {
    work: &'a Work,
    materials: &'a Materials,
    script: String,
    environment: Vec<(String, Zeroizing<Vec<u8>>)>,
    files: Vec<File>,
    input: Option<Zeroizing<Vec<u8>>>,
    known: Vec<Known>,
    kept: Vec<Rendered>,
    warnings: Vec<String>,
}

impl<'a> Preparing<'a> {
    fn new(work: &'a Work, materials: &'a Materials) -> Self {
        Self {
            work,
            materials,
            script: String::new(),
            environment: Vec::new(),
            files: Vec::new(),
            input: None,
            known: materials.known(),
            kept: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The value on standard input, as `echo` would write it.
    fn feed(&mut self, secret_ref: &str) -> Result<(), Error> {
        let material = self.alone("secret_ref", secret_ref)?;
        let bytes = self.text_of(material);
        let mut input = Zeroizing::new(Vec::with_capacity(bytes.len() + 1));
        input.extend_from_slice(&bytes);
        if !input.ends_with(b"\n") {
            input.push(b'\n');
        }
        self.input = Some(input);
        Ok(())
    }

    fn write_files(
        &mut self,
        file_refs: &BTreeMap<String, String>,
        binary: bool,
    ) -> Result<BTreeMap<String, String>, Error> {
        let mut paths = BTreeMap::new();
        for (number, (name, text)) in file_refs.iter().enumerate() {
            let material = self.alone(name, text)?;
            let content = if binary { material.bytes.clone() } else { self.text_of(material) };
            let path =
                Path::new(SECURE_DIRECTORY).join(format!("tmp-{}-{number}", self.work.action_id));
            paths.insert(name.clone(), path.to_string_lossy().into_owned());
            self.files.push(File { path, mode: TEMPORARY_MODE, content });
        }
        Ok(paths)
    }

    fn write_script(
        &mut self,
        template: &str,
        paths: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        // Numbered as they first appear in the command.
        let mut numbers: Vec<usize> = Vec::new();
        let materials = self.materials;
        let reading = Reading::of(template)?;
        let body = reading.script(|handle| {
            if let Some(path) = paths.get(handle.as_written()) {
                return Ok(Stand::Path(path.clone()));
            }
            let (material, _) = materials.of(handle)?;
            let known = numbers.iter().position(|number| *number == material);
            Ok(Stand::Variable(known.unwrap_or_else(|| {
                numbers.push(material);
                numbers.len() - 1
            })))
        })?;
        for (number, material) in numbers.iter().enumerate() {
            let bytes = self.text_of(&materials.all()[*material]);
            self.environment.push((variable(number), bytes));
        }
        self.warn_of_arguments(&reading, paths);
        self.script = prelude(numbers.len()) + &body;
        Ok(())
    }

    /// Says which values other accounts of the machine may read: no namespace keeps a process's arguments from those who
    /// list all processes from outside.
    fn warn_of_arguments(&mut self, reading: &Reading, paths: &BTreeMap<String, String>) {
        for handle in reading.in_arguments() {
            let name = handle.as_written();
            let material = self.materials.of(handle).ok().filter(|_| !paths.contains_key(name));
            if material.is_none_or(|(_, material)| material.secret.entry != Entry::Value) {
                continue;
            }
            let warning = format!(
                "{name}: it stands in a program's arguments, which other accounts of the machine can read while the \
                 program runs; give it by a variable (`V={{{{nl:{name}}}}} program`), on standard input or in a file"
            );
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }

    /// The files that the action was judged with. One that was rendered since is not among them, whatever its path.
    fn add_kept(&mut self, named: Vec<Rendered>) {
        let (kept, newer): (Vec<_>, Vec<_>) =
            named.into_iter().partition(|file| self.work.kept.contains(&file.made_by));
        for file in newer {
            let path = file.file.path.display();
            self.warnings.push(format!(
                "{path}: it was rendered after this action was allowed, and is not there; send the action again"
            ));
        }
        for rendered in &kept {
            self.files.push(rendered.file.clone());
            self.known.extend(rendered.known.iter().cloned());
        }
        self.kept = kept;
    }

    fn alone(&self, field: &str, text: &str) -> Result<&'a Material, Error> {
        let handle =
            Handle::parse_alone(field, text).map_err(|_| Error::new(Code::PlaceholderInvalid))?;
        Ok(self.materials.of(&handle)?.1)
    }

    /// A value as text, and a warning where that is not all of it.
    fn text_of(&mut self, material: &Material) -> Zeroizing<Vec<u8>> {
        let (bytes, warning) = material.without_nul();
        self.warnings.extend(warning);
        bytes
    }

    /// The hosts that every value in the jail may reach, those in kept files too.
    fn common_hosts(&self) -> Vec<Destination> {
        let with_value = self.kept.iter().filter(|kept| !kept.known.is_empty());
        let all = self.work.allowed_hosts.clone();
        with_value.fold(all, |common, kept| Destination::common(&common, &kept.hosts))
    }

    fn finish(self) -> Result<Prepared, Error> {
        let holds_value =
            self.materials.holds_value() || self.kept.iter().any(|kept| !kept.known.is_empty());
        let placeholders: Vec<_> = self
            .materials
            .all()
            .iter()
            .filter(|material| material.secret.entry == Entry::Placeholder)
            .map(|material| material.secret.exchanged())
            .chain(self.kept.iter().flat_map(|kept| kept.placeholders.iter().cloned()))
            .collect();
        let reach = reach(holds_value, placeholders, self.common_hosts())?;
        let command = Command {
            script: self.script,
            environment: self.environment,
            files: self.files,
            reach,
            working_directory: self.work.working_directory.clone(),
            holds_value,
        };
        Ok(Prepared { command, input: self.input, known: self.known, warnings: self.warnings })
    }
}

/// A jail with a value in it, or without any secret, reaches what the grant names. One that has
/// placeholders alone reaches what policy lets it: there is nothing in it to be lost.
fn reach(
    holds_value: bool,
    mut placeholders: Vec<Exchanged>,
    hosts: Vec<Destination>,
) -> Result<Reach, Error> {
    placeholders.sort();
    placeholders.dedup();
    // A secret has one placeholder, whichever of its values it stands for.
    if let Some(twice) = placeholders.windows(2).find(|pair| pair[0].path == pair[1].path) {
        let words = SafeText::default().and(&twice[0].path);
        let words = words.and(": one version in a command, since its placeholder is one");
        return Err(Error::with(Code::PlaceholderInvalid, words));
    }
    let confined = holds_value || placeholders.is_empty();
    Ok(Reach { only: confined.then_some(hosts), placeholders })
}

/// Where a template's file would be, and how many bytes it has without its values.
pub(crate) fn outlined(
    action: &Action,
    action_id: &str,
) -> Result<Option<(PathBuf, usize)>, Error> {
    let Deed::Template { source: TemplateSource::Inline(text), output_path } = &action.deed else {
        return Ok(None);
    };
    let path = kept::output_path(output_path.as_deref(), action_id)?;
    let parts = parse_template(text).map_err(|_| Error::new(Code::PlaceholderInvalid))?;
    let size = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => text.len(),
        TemplatePart::Handle(_) => 0,
    };
    Ok(Some((path, parts.iter().map(size).sum())))
}

/// A rendered file, the number of its placeholders, and what the agent should know beside.
pub(crate) fn render(
    work: &Work,
    materials: &Materials,
    life: std::time::Duration,
) -> Result<Option<(Rendered, u64, Vec<String>)>, Error> {
    let Deed::Template { source, output_path } = &work.action().deed else { return Ok(None) };
    let TemplateSource::Inline(text) = source else {
        return Err(Error::with(Code::Internal, "the template's file was not read".into()));
    };
    let path = kept::output_path(output_path.as_deref(), &work.action_id)?;
    let parts = parse_template(text).map_err(|_| Error::new(Code::PlaceholderInvalid))?;
    let (mut content, mut resolved) = (Zeroizing::new(Vec::with_capacity(text.len() * 2)), 0);
    for part in &parts {
        match part {
            TemplatePart::Text(text) => append(&mut content, text.as_bytes())?,
            TemplatePart::Handle(handle) => {
                append(&mut content, &materials.of(handle)?.1.without_nul().0)?;
                resolved += 1;
            }
        }
    }
    let edition = |material: &Material| (material.secret.path.clone(), material.secret.edition);
    let secrets = materials.all().iter().map(edition).collect();
    let bound =
        materials.all().iter().filter(|material| material.secret.entry == Entry::Placeholder);
    let named =
        |material: &Material| (material.secret.handle.clone(), material.secret.path.clone());
    let rendered = Rendered {
        made_by: work.action_id.clone(),
        references: materials.all().iter().map(named).collect(),
        file: File { path, mode: RENDERED_MODE, content },
        known: materials.known(),
        placeholders: bound.map(|material| material.secret.exchanged()).collect(),
        secrets,
        hosts: work.allowed_hosts.clone(),
        permissions: work.permissions.clone(),
        until: kept::until(life),
    };
    let warnings = materials.all().iter().filter_map(|material| material.without_nul().1).collect();
    Ok(Some((rendered, resolved, warnings)))
}

/// Grows by hand, so that an outgrown buffer is wiped.
fn append(content: &mut Zeroizing<Vec<u8>>, bytes: &[u8]) -> Result<(), Error> {
    if content.len() + bytes.len() > kept::ROOM {
        return Err(kept::too_large());
    }
    if content.capacity() - content.len() < bytes.len() {
        let mut larger = Zeroizing::new(Vec::with_capacity((content.len() + bytes.len()) * 2));
        larger.extend_from_slice(content);
        *content = larger;
    }
    content.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests;
