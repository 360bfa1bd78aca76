//! The names that a structure and its members have in the text.

use naga::StructMember;

use crate::names::Names;

/// The names of a structure.
#[derive(Debug)]
pub(crate) struct StructNames {
    pub(crate) name: String,
    pub(crate) members: Vec<String>,
}

impl StructNames {
    pub(crate) fn new(name: String, members: &[StructMember]) -> Self {
        let mut names = Names::default();
        // A member of its structure's own name would be a constructor.
        names.take(&name);
        let members = members.iter().map(|m| names.take(m.name.as_deref().unwrap_or("member"))).collect();
        Self { name, members }
    }
}
