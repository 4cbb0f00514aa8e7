//! Names of sheets and files: tables are named by us, but an extension or a future table may bring any text.

/// One name a table, none longer than `limit` UTF-16 units, none twice even where case does not count, none with a
/// forbidden character.
pub(crate) fn unique<'a>(names: impl Iterator<Item = &'a str>, limit: usize, forbidden: &[char]) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    let mut given = Vec::new();
    for name in names {
        let clean = clean(name, forbidden);
        let mut candidate = shorten(&clean, limit).to_owned();
        let mut number = 2_u32;
        while taken.contains(&candidate.to_lowercase()) {
            let suffix = format!("~{number}");
            candidate = format!("{}{suffix}", shorten(&clean, limit.saturating_sub(suffix.len())));
            number += 1;
        }
        taken.push(candidate.to_lowercase());
        given.push(candidate);
    }
    given
}

/// Names that Windows keeps for devices, whatever ending follows.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// As a name that is no device on any system.
pub(crate) fn no_device(name: String) -> String {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let numbered = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    let port = numbered.is_some_and(|n| n.chars().count() == 1 && n.contains(|c: char| "0123456789¹²³".contains(c)));
    if port || DEVICES.contains(&stem.as_str()) { format!("_{name}") } else { name }
}

fn clean(name: &str, forbidden: &[char]) -> String {
    let plain: String = name.chars().map(|c| if c.is_control() || forbidden.contains(&c) { '_' } else { c }).collect();
    if plain.is_empty() { "table".to_owned() } else { no_device(plain) }
}

/// The longest beginning of at most `units` UTF-16 units, cut between characters.
pub(crate) fn shorten(text: &str, units: usize) -> &str {
    // No text has more UTF-16 units than bytes.
    if text.len() <= units {
        return text;
    }
    let mut left = units;
    for (at, c) in text.char_indices() {
        if c.len_utf16() > left {
            return &text[..at];
        }
        left -= c.len_utf16();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_equal_names_are_told_apart() {
        let long = "unified_perf_summary_kl_overlap";
        let names = [
            long,
            "unified_perf_summary_kl_overlap_of_another",
            "UNIFIED_perf_summary_kl_overlap_too",
            "a/b",
            "a:b",
            "",
        ];
        assert_eq!(
            unique(names.into_iter(), 31, &['/', ':']),
            [long, "unified_perf_summary_kl_overl~2", "UNIFIED_perf_summary_kl_overl~3", "a_b", "a_b~2", "table"]
        );
    }

    #[test]
    fn devices_are_no_names() {
        for (name, safe) in [
            ("con", "_con"),
            ("CON.x", "_CON.x"),
            ("Aux ", "_Aux "),
            ("nul..", "_nul.."),
            ("com1", "_com1"),
            ("LPT9.log.csv", "_LPT9.log.csv"),
            ("com²", "_com²"),
            ("com", "com"),
            ("com10", "com10"),
            ("console", "console"),
            ("a.con", "a.con"),
        ] {
            assert_eq!(no_device(name.to_owned()), safe);
        }
        assert_eq!(unique(["nul", "x\0y"].into_iter(), 31, &[]), ["_nul", "x_y"]);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shorten("abc", 3), "abc");
        assert_eq!(shorten("abc", 2), "ab");
        assert_eq!(shorten("aé", 2), "aé", "two units, three bytes");
        // One character, two units.
        assert_eq!(shorten("a😀b", 2), "a");
        assert_eq!(shorten("a😀b", 3), "a😀");
    }
}
