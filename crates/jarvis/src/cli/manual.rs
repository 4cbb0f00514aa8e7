//! `jarvis completions` and `jarvis man`: made from the same description of the command line as `--help`.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use jarvis_report::OutputFile;

use serde_json::json;

use super::{Failure, Session};
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

pub(crate) fn completions(session: &Session, args: &CompletionsArgs, mut command: Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "jarvis", &mut text);
    if session.common.json {
        let script = String::from_utf8_lossy(&text);
        text = format!(
            "{:#}\n",
            json!({"schema": "jarvis.completions/1", "shell": args.shell.to_string(), "script": script})
        )
        .into_bytes();
    }
    session.print(&text)
}

pub(crate) fn man(session: &Session, args: &ManArgs, mut command: Command) -> Result<(), Failure> {
    command.build();
    let subcommands = command.get_subcommands().filter(|c| c.get_name() != "help" && !c.is_hide_set()).cloned();
    let all: Vec<Command> = std::iter::once(command.clone()).chain(subcommands).collect();
    let name =
        |c: &Command| if c.get_name() == "jarvis" { "jarvis.1".into() } else { format!("jarvis-{}.1", c.get_name()) };
    let Some(folder) = &args.output else {
        if session.common.json {
            let text = |c: &Command| Ok::<_, Failure>(String::from_utf8_lossy(&page(c.clone())?).into_owned());
            let pages = all
                .iter()
                .map(|c| Ok(json!({"name": name(c), "text": text(c)?})))
                .collect::<Result<Vec<_>, Failure>>()?;
            return session.print(format!("{:#}\n", json!({"schema": "jarvis.man/1", "pages": pages})).as_bytes());
        }
        return session.print(&page(command)?);
    };
    let mut batch = Batch::default();
    for command in &all {
        batch.add(folder, OutputFile::new(name(command), page(command.clone())?))?;
    }
    let written: Vec<String> = batch.paths().map(|path| path.display().to_string()).collect();
    batch.write()?;
    if session.common.json {
        return session.print(format!("{:#}\n", json!({"schema": "jarvis.man/1", "files": written})).as_bytes());
    }
    if session.common.quiet {
        return Ok(());
    }
    session.print_text(&format!("{} pages in {}\n", written.len(), folder.display()))
}

fn page(command: Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    Ok(text)
}
