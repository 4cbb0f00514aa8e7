//! Ordinary Python work: functions that always make the same calls, as code does.

use std::rc::Rc;

use super::names::{BUILTINS, FUNCTIONS, METHODS};
use super::random::Random;

/// Frames of a routine in the order of their start, each with its depth below the first.
pub(super) type Routine = Rc<[(u8, Rc<str>)]>;

/// Distinct objects whose methods are called; each gives every method a name of its own.
const OBJECTS_PER_METHOD: usize = 8;
/// Deepest nesting within a routine.
const DEEPEST: u8 = 7;
/// Longest routine, in frames.
const LONGEST: usize = 24;

/// Every function of the table with the calls it makes.
#[derive(Debug)]
pub(super) struct Routines {
    routines: Vec<Routine>,
    methods: Vec<Routine>,
}

impl Routines {
    /// Decides what each function calls: functions before it in the table, and functions written in C.
    pub(super) fn new(random: &mut Random) -> Self {
        let (builtins, methods) = (builtins(), methods(random));
        let mut routines: Vec<Routine> = Vec::with_capacity(FUNCTIONS.len());
        for name in FUNCTIONS {
            let mut frames: Vec<(u8, Rc<str>)> = vec![(0, Rc::from(*name))];
            for _ in 0..=random.below(5) {
                if frames.len() >= LONGEST {
                    break;
                }
                let draw = random.below(10);
                if draw < 7 || routines.is_empty() {
                    let leaf = match draw {
                        ..5 => &builtins[random.skewed(builtins.len())],
                        _ => &methods[random.below(methods.len())],
                    };
                    frames.push((1, Rc::clone(leaf)));
                    continue;
                }
                let called = &routines[random.below(routines.len())];
                let deepest = called.iter().map(|frame| frame.0).max().unwrap_or(0);
                if frames.len() + called.len() <= LONGEST && deepest < DEEPEST {
                    frames.extend(called.iter().map(|(depth, name)| (depth + 1, Rc::clone(name))));
                }
            }
            routines.push(frames.into());
        }
        let methods = methods.into_iter().map(|name| Routine::from([(0, name)])).collect();
        Self { routines, methods }
    }

    /// One of them, some more often than the rest.
    pub(super) fn pick(&self, random: &mut Random) -> Routine {
        Rc::clone(&self.routines[random.skewed(self.routines.len())])
    }

    /// What a rarely taken branch calls: any function, or a method of any object.
    pub(super) fn pick_rare(&self, random: &mut Random) -> Routine {
        let among = if random.below(2) == 0 { &self.routines } else { &self.methods };
        Rc::clone(&among[random.below(among.len())])
    }
}

/// Functions written in C.
fn builtins() -> Vec<Rc<str>> {
    BUILTINS.iter().map(|name| Rc::from(*name)).collect()
}

/// Methods written in C, each of several objects.
fn methods(random: &mut Random) -> Vec<Rc<str>> {
    let mut names = Vec::new();
    for _ in 0..OBJECTS_PER_METHOD {
        for (method, kind) in METHODS {
            let address = 0x7fa0_0000_0000_u64 + (random.next() >> 26 & !15);
            names.push(format!("<built-in method {method} of {kind} object at {address:#x}>").into());
        }
    }
    names
}

/// A method of a tensor, as a frame around its op.
pub(super) fn tensor_method(method: &str) -> String {
    format!("<built-in method {method} of Tensor object at 0x7fa14c9b4140>")
}

/// A function of the `torch` module, as a frame around its op.
pub(super) fn torch_function(function: &str) -> String {
    format!("<built-in method {function} of type object at 0x7fa3e433e180>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routines_are_trees_within_their_bounds() {
        let mut random = Random::new(5, 0);
        let routines = Routines::new(&mut random);
        for routine in &routines.routines {
            assert!(routine.len() <= LONGEST);
            assert_eq!(routine[0].0, 0);
            for pair in routine.windows(2) {
                assert!(pair[1].0 >= 1 && pair[1].0 <= pair[0].0 + 1, "a frame opens under one that is open");
            }
        }
    }

    #[test]
    fn tables_have_no_repetition() {
        for table in [FUNCTIONS, BUILTINS] {
            let mut sorted = table.to_vec();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), table.len());
        }
    }
}
