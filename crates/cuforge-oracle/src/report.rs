//! Reports of many verifications for people and machines: a text table, charts, SVG, JSON and `JUnit` XML.

mod chart;
mod json;
mod junit;
mod svg;
mod table;

pub use chart::{heat_map, histogram};
pub use json::{SCHEMA, to_json};
pub use junit::{to_junit, xml_text};
pub use svg::to_svg;
pub use table::{details, to_table};
