//! Reports of many verifications for people and machines: a text table, JSON and `JUnit` XML.

mod json;
mod junit;
mod table;

pub use json::{SCHEMA, to_json};
pub use junit::{to_junit, xml_text};
pub use table::{details, to_table};
