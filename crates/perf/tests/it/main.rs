//! Integration tests of the performance models and of the report.

#[cfg(test)]
mod autocast;
#[cfg(test)]
mod evaluation;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod launches;
#[cfg(test)]
mod op_cases;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod reference_tables;
#[cfg(test)]
mod report_default;
#[cfg(test)]
mod report_invariants;
#[cfg(test)]
mod report_options;
#[cfg(test)]
mod report_parity;
#[cfg(test)]
mod row_numbers;
#[cfg(test)]
mod support;
