//! Names of sheets and files: tables are named by us, but an extension or a future table may bring any text.

/// How a name that is too long is made to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LongNames {
    /// Its first words become their first letters; what tells sheets of one kind apart is at the end.
    #[default]
    Initials,
    /// What is too much is cut off, as the reference does.
    Cut,
}

/// One name a table, none longer than `limit` UTF-16 units, none twice even where case does not count, none with a
/// forbidden character.
pub(crate) fn unique<'a>(
    names: impl Iterator<Item = &'a str>,
    limit: usize,
    forbidden: &[char],
    long: LongNames,
) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    let mut given = Vec::new();
    for name in names {
        let mut clean = clean(name, forbidden);
        if long == LongNames::Initials {
            clean = with_initials(&clean, limit);
        }
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

/// The name with as many of its first words as must be cut down to a letter for it to fit; as it is if that does not help.
fn with_initials(name: &str, limit: usize) -> String {
    let mut short = name.to_owned();
    let mut done = 0;
    while short.encode_utf16().count() > limit {
        let Some((first, rest)) = short[done..].split_once('_') else { return name.to_owned() };
        let initial: String = first.chars().take(1).collect();
        short = format!("{}{initial}_{rest}", &short[..done]);
        done += initial.len() + 1;
    }
    short
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
            unique(names.into_iter(), 31, &['/', ':'], LongNames::Cut),
            [long, "unified_perf_summary_kl_overl~2", "UNIFIED_perf_summary_kl_overl~3", "a_b", "a_b~2", "table"]
        );
    }

    #[test]
    fn no_word_of_a_long_name_is_torn() {
        let of = |names: &[&str]| unique(names.iter().copied(), 31, &[], LongNames::Initials);
        assert_eq!(
            of(&[
                "unified_perf_summary_kl_overlap",
                "ops_unique_args_intersect_target",
                "unified_perf_summary_intersect_target",
                "unified_perf_summary_only_baseline_target",
                "unified_perf_summary_only_variant_target",
                "a__b_of_a_report_with_a_long_name",
            ]),
            [
                "unified_perf_summary_kl_overlap",
                "o_unique_args_intersect_target",
                "u_perf_summary_intersect_target",
                "u_p_s_only_baseline_target",
                "u_p_summary_only_variant_target",
                "a__b_o_a_r_with_a_long_name",
            ]
        );
        let endless = "x".repeat(40);
        assert_eq!(of(&[&endless, &format!("a_{endless}")]), ["x".repeat(31), format!("a_{}", "x".repeat(29))]);
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
        assert_eq!(unique(["nul", "x\0y"].into_iter(), 31, &[], LongNames::Cut), ["_nul", "x_y"]);
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
