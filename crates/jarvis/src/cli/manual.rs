//! `jarvis completions` and `jarvis man`: made from the same description of the command line as `--help`.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use jarvis_report::OutputFile;

use super::Failure;
use crate::output::Batch;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jarvis completions bash > ~/.local/share/bash-completion/completions/jarvis
  jarvis completions zsh > \"${fpath[1]}/_jarvis\"
  jarvis completions fish > ~/.config/fish/completions/jarvis.fish")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jarvis man | man -l -                      the page of jarvis itself
  jarvis man -o ~/.local/share/man/man1      all pages, where `man` finds them")]
pub(crate) struct ManArgs {
    /// Write the pages of all commands into this folder
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "jarvis", &mut text);
    let mut out = io::stdout().lock();
    out.write_all(&text)?;
    Ok(out.flush()?)
}

pub(crate) fn man(args: &ManArgs, mut command: Command) -> Result<(), Failure> {
    command.build();
    let Some(folder) = &args.output else {
        let mut out = io::stdout().lock();
        out.write_all(&page(command)?)?;
        return Ok(out.flush()?);
    };
    let mut batch = Batch::default();
    let commands: Vec<Command> =
        command.get_subcommands().filter(|c| c.get_name() != "help" && !c.is_hide_set()).cloned().collect();
    for sub in commands {
        let name = format!("jarvis-{}", sub.get_name());
        batch.add(folder, OutputFile::new(format!("{name}.1"), page(sub)?))?;
    }
    batch.add(folder, OutputFile::new("jarvis.1", page(command)?))?;
    Ok(batch.write()?)
}

fn page(command: Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    Ok(text)
}
