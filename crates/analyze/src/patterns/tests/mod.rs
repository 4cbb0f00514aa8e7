//! Small traces that a detector must and must not fire on.

mod attention;
mod chains;
mod hostile;
mod launches;
mod look_alikes;
mod loops;
mod losses;
mod norms;
mod optimizers;
mod outputs;
mod own_losses;
mod passes;
mod repeats;
mod sketch;
mod sorted_rows;
mod stacked_gradients;
mod unused_rows;
mod weights;

use super::{Code, PATTERN_DETECTORS};

#[test]
fn every_code_has_one_detector_that_explains_itself() {
    for code in Code::ALL {
        let of_code = PATTERN_DETECTORS.iter().filter(|d| d.codes.contains(code)).count();
        assert_eq!(of_code, 1, "{}", code.as_str());
    }
    for detector in PATTERN_DETECTORS {
        let text = detector.explanation();
        let headings = ["What it finds", "Why it matters", "How it is computed", "What to do", "Limits"];
        let mut at = 0;
        for heading in headings {
            let found = text[at..].find(&format!("# {heading}"));
            at += found.unwrap_or_else(|| panic!("{:?} lacks `{heading}`", detector.codes));
        }
    }
}
