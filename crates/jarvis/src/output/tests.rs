use std::collections::BTreeMap;

use super::*;

fn batch(root: &Path, files: &[(&str, &str)]) -> Batch<'static> {
    let mut batch = Batch::default();
    for (path, text) in files {
        batch.add(root, OutputFile::new(*path, text.as_bytes().to_vec())).unwrap();
    }
    batch
}

/// Every file below a folder with its text, and every empty folder.
fn contents(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                found.insert(format!("{name}/"), String::new());
                pending.push(path);
            } else {
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

fn listed(found: &[(&str, &str)]) -> BTreeMap<String, String> {
    found.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// What an earlier run says of a file of this text.
fn sealed(name: impl Into<PathBuf>, text: &str) -> Earlier {
    let seal = (text.len() as u64, Checksum::of(text.as_bytes()).to_string());
    Earlier { path: name.into(), seal: Some(seal) }
}

#[test]
fn files_and_folders_appear_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("a/b");
    batch(&out, &[("x.csv", "1"), ("csvs/y.csv", "2")]).write().unwrap();
    let expected = [("a/", ""), ("a/b/", ""), ("a/b/csvs/", ""), ("a/b/x.csv", "1"), ("a/b/csvs/y.csv", "2")];
    assert_eq!(contents(root.path()), listed(&expected));
    // Again: replaced, no leftovers.
    batch(&out, &[("x.csv", "3")]).write().unwrap();
    assert_eq!(contents(&out), listed(&[("csvs/", ""), ("x.csv", "3"), ("csvs/y.csv", "2")]));
}

#[test]
fn a_failure_leaves_everything_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    batch(root.path(), &[("x.csv", "old"), ("y.csv", "old")]).write().unwrap();
    // A folder where a file is to go.
    fs::create_dir(root.path().join("z.csv")).unwrap();
    let before = contents(root.path());
    let error = batch(root.path(), &[("x.csv", "new"), ("new/w.csv", "new"), ("z.csv", "new")]).write().unwrap_err();
    assert!(matches!(error, OutputError::IsFolder { .. }), "{error}");
    assert_eq!(contents(root.path()), before);
    // A file where a folder is to go.
    let error = batch(root.path(), &[("x.csv", "new"), ("y.csv/w.csv", "new")]).write().unwrap_err();
    assert!(matches!(error, OutputError::Folder { .. }), "{error}");
    assert!(error.help().contains("a part of this path is a file"), "{}", error.help());
    assert_eq!(contents(root.path()), before);
}

/// The renames themselves may fail after some succeeded.
#[test]
fn a_late_failure_puts_the_old_files_back() {
    let root = tempfile::tempdir().unwrap();
    batch(root.path(), &[("x.csv", "old")]).write().unwrap();
    let batch = batch(root.path(), &[("x.csv", "new"), ("fresh.csv", "new"), ("z.csv", "new")]);
    let staged = batch.stage().unwrap();
    // Somebody makes a folder of that name between the two steps.
    fs::create_dir(root.path().join("z.csv")).unwrap();
    assert!(staged.publish().is_err());
    assert_eq!(contents(root.path()), listed(&[("x.csv", "old"), ("z.csv/", "")]));
}

#[test]
fn files_are_seen_when_they_are_published() {
    let root = tempfile::tempdir().unwrap();
    let old = [("x.csv", "old"), ("y/z.csv", "old")];
    batch(root.path(), &old).write().unwrap();
    let before = contents(root.path());
    let seen = || {
        let named = contents(root.path()).into_iter().filter(|(name, _)| !name.contains(".jarvis-"));
        named.collect::<BTreeMap<_, _>>()
    };
    let staged = || {
        let staging = Staging::begin(root.path());
        let files = ["x.csv", "v/w.csv"].map(|name| (name, staging.put_away(Path::new(name), b"new").unwrap()));
        // What can't be put away is told when it is written.
        assert_eq!(staging.put_away(Path::new("y"), b"new"), None);
        assert_eq!(staging.put_away(Path::new("../x.csv"), b"new"), None);
        (staging, files)
    };
    // Never published: nothing has changed.
    let staged_only = staged();
    let with_folder: BTreeMap<_, _> = before.clone().into_iter().chain(listed(&[("v/", "")])).collect();
    assert_eq!(seen(), with_folder);
    drop(staged_only);
    assert_eq!(contents(root.path()), before);
    let (staging, files) = staged();
    let mut batch = Batch::on(&staging);
    for (name, temporary) in &files {
        batch.add_staged(root.path(), Path::new(name), temporary).unwrap();
    }
    batch.add(root.path(), OutputFile::new("late.json", b"new".to_vec())).unwrap();
    batch.write().unwrap();
    drop(staging);
    let all = [("x.csv", "new"), ("y/", ""), ("y/z.csv", "old"), ("v/", ""), ("v/w.csv", "new"), ("late.json", "new")];
    assert_eq!(contents(root.path()), listed(&all));
}

#[test]
fn paths_stay_inside_the_folder() {
    for path in ["../x", "/etc/x", "a/../../x", "", "./x"] {
        let mut batch = Batch::default();
        let added = batch.add(Path::new("out"), OutputFile::new(path, Vec::new()));
        assert!(matches!(added, Err(OutputError::Outside { .. })), "{path}");
    }
}

#[test]
fn a_probe_tells_early_and_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    probe(&root.path().join("not/yet/there")).unwrap();
    assert_eq!(contents(root.path()), listed(&[]));
    fs::write(root.path().join("file"), "").unwrap();
    let error = probe(&root.path().join("file/below")).unwrap_err();
    assert!(error.help().contains("is a file"), "{error}");
}

/// Many writers at once: the folder ends as that of one of them.
#[test]
fn writers_at_once_do_not_mix() {
    let root = tempfile::tempdir().unwrap();
    let text = |i: usize| i.to_string().repeat(200_000);
    std::thread::scope(|scope| {
        for i in 0..8 {
            let root = root.path();
            let own = format!("only-{i}.csv");
            scope.spawn(move || {
                let mut batch = batch(root, &[("x.csv", &text(i)), ("y/z.csv", &text(i)), (&own, "")]);
                batch.replaces(root, |root| {
                    let names = fs::read_dir(root).unwrap().map(|e| PathBuf::from(e.unwrap().file_name()));
                    let names = names.filter(|n| n.to_string_lossy().starts_with("only-"));
                    names.map(|name| sealed(name, "")).collect()
                });
                batch.write().unwrap();
            });
        }
    });
    let found = contents(root.path());
    let winner = (0..8).find(|&i| found["x.csv"] == text(i)).unwrap();
    assert_eq!(found["y/z.csv"], text(winner));
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, [format!("only-{winner}.csv").as_str(), "x.csv", "y/", "y/z.csv"]);
}

#[test]
fn who_waits_too_long_for_another_run_is_told() {
    let root = tempfile::tempdir().unwrap();
    let holder = File::open(root.path()).unwrap();
    holder.lock().unwrap();
    let undo = Undo::begin();
    let folders = BTreeSet::from([root.path().to_path_buf()]);
    let soon = std::time::Duration::from_millis(1);
    let Err(error) = Locks::take_within(&folders, &undo, soon) else { panic!("two hold one lock") };
    assert!(matches!(error, OutputError::Busy { .. }), "{error}");
    holder.unlock().unwrap();
    assert!(Locks::take_within(&folders, &undo, soon).is_ok());
    drop(undo);
}

#[test]
fn what_an_earlier_run_wrote_goes_unless_the_new_one_fails() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let old = [("x.csv", "old"), ("a/b/stale.csv", "old"), ("a/kept.csv", "old")];
    batch(root, &old).write().unwrap();
    let listing: Listing =
        |_| ["x.csv", "a/b/stale.csv", "../outside", "/etc/passwd"].map(|name| sealed(name, "old")).into();
    // It fails after the old files went.
    let mut failing = batch(root, &[("x.csv", "new")]);
    failing.replaces(root, listing);
    let staged = failing.stage().unwrap();
    staged.name_all().unwrap();
    assert!(!root.join("a/b/stale.csv").exists());
    drop(staged);
    let mut before = listed(&old);
    before.extend(listed(&[("a/", ""), ("a/b/", "")]));
    assert_eq!(contents(root), before);
    // It does not.
    let mut good = batch(root, &[("x.csv", "new")]);
    good.replaces(root, listing);
    good.write().unwrap();
    assert_eq!(contents(root), listed(&[("x.csv", "new"), ("a/", ""), ("a/kept.csv", "old")]));
}

#[test]
fn names_as_long_as_can_be_are_written() {
    let root = tempfile::tempdir().unwrap();
    let name = "n".repeat(255);
    batch(root.path(), &[(&name, "text")]).write().unwrap();
    assert_eq!(contents(root.path()), listed(&[(&name, "text")]));
    let longer = "n".repeat(256);
    let error = batch(root.path(), &[(&longer, "text")]).write().unwrap_err();
    assert!(error.help().contains("shorter"), "{error}: {}", error.help());
    assert_eq!(contents(root.path()), listed(&[(&name, "text")]));
}

#[test]
fn what_a_killed_run_left_goes_when_it_is_old() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    batch(root, &[("a/x.csv", "old"), ("y.csv", "old")]).write().unwrap();
    let left = ["a/.jarvis-1-2.tmp", ".jarvis-1-3.tmp"].map(|name| root.join(name));
    let others = [".jarvis.toml", "a/.jarvis-1.csv", "x.tmp"].map(|name| root.join(name));
    for path in left.iter().chain(&others) {
        fs::write(path, "half").unwrap();
        let old = std::time::SystemTime::now() - 2 * ABANDONED;
        File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }
    let of_a_run = root.join("a/.jarvis-4-5.tmp");
    fs::write(&of_a_run, "half").unwrap();
    batch(root, &[("a/x.csv", "new"), ("y.csv", "new")]).write().unwrap();
    assert!(!left.iter().any(|path| path.exists()));
    assert!(others.iter().chain([&of_a_run]).all(|path| path.exists()));
}

/// What a log says was written is removed where it is, and as it is, and nowhere else.
#[cfg(unix)]
#[test]
fn what_has_changed_or_lies_behind_a_link_stays() {
    let home = tempfile::tempdir().unwrap();
    let (root, elsewhere) = (home.path().join("out"), home.path().join("elsewhere"));
    batch(&root, &[("same.csv", "old"), ("longer.csv", "older"), ("other.csv", "odd"), ("named.csv", "old")])
        .write()
        .unwrap();
    batch(&elsewhere, &[("same.csv", "old")]).write().unwrap();
    std::os::unix::fs::symlink(&elsewhere, root.join("link")).unwrap();
    std::os::unix::fs::symlink(elsewhere.join("same.csv"), root.join("link.csv")).unwrap();
    let mut again = batch(&root, &[("x.csv", "new")]);
    again.replaces(&root, |_| {
        let written = ["same.csv", "longer.csv", "other.csv", "link/same.csv", "link.csv", "../elsewhere/same.csv"];
        let named = Earlier { path: "named.csv".into(), seal: None };
        written.map(|name| sealed(name, "old")).into_iter().chain([named]).collect()
    });
    let changed = again.write().unwrap();
    assert_eq!(changed, ["longer.csv", "other.csv", "named.csv"].map(|name| root.join(name)));
    assert!(elsewhere.join("same.csv").exists() && root.join("link.csv").is_symlink());
    assert!(changed.iter().all(|path| path.exists()) && !root.join("same.csv").exists());
}

#[cfg(unix)]
#[test]
fn a_path_that_is_a_link_stays_one_and_no_device_is_replaced() {
    use std::os::unix::{fs::symlink, net::UnixListener};
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let write = |path: PathBuf| {
        let mut batch = Batch::default();
        batch.add_at(path, b"new".to_vec())?;
        batch.write()
    };
    batch(home.path(), &[("deep/file", "old")]).write().unwrap();
    symlink("deep/file", at("link")).unwrap();
    symlink("link", at("link-of-link")).unwrap();
    probe_file(&at("link-of-link")).unwrap();
    write(at("link-of-link")).unwrap();
    assert_eq!(fs::read_to_string(at("deep/file")).unwrap(), "new");
    assert!(at("link").is_symlink() && at("link-of-link").is_symlink());
    assert_eq!(fs::read_dir(at("deep")).unwrap().count(), 1, "nothing temporary stays");

    let _socket = UnixListener::bind(at("socket")).unwrap();
    symlink("socket", at("link-of-socket")).unwrap();
    symlink("nowhere", at("dead")).unwrap();
    for name in ["socket", "link-of-socket"] {
        assert!(matches!(probe_file(&at(name)), Err(OutputError::NoFile { .. })), "{name}");
        assert!(matches!(write(at(name)), Err(OutputError::NoFile { .. })), "{name}");
    }
    assert!(matches!(batch(home.path(), &[("socket", "new")]).write(), Err(OutputError::NoFile { .. })));
    assert!(matches!(write(at("dead")), Err(OutputError::DeadLink { .. })));
    for folder in ["dead", "dead/below/it"] {
        let error = probe(&at(folder)).unwrap_err();
        assert!(matches!(&error, OutputError::DeadLink { path } if *path == at("dead")), "{folder}: {error}");
    }
    assert!(!at("socket").is_file() && at("link-of-socket").is_symlink() && at("dead").is_symlink());
}
