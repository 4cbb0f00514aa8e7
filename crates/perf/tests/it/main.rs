//! Integration tests of the performance models.

#[cfg(test)]
mod evaluation;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod op_cases;
#[cfg(test)]
mod reference_tables;
