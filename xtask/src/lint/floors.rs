//! The floor table: which crate may depend on which, and what each must never name. The one place to change an arrow.

/// What the house says about one crate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// The crate.
    pub(crate) name: &'static str,
    /// Arrows point from a higher floor to a lower one.
    pub(crate) floor: u8,
    /// The workspace crates that it may depend on.
    pub(crate) may_use: Allowed,
    /// Crates from elsewhere that it must not depend on, with the reason.
    pub(crate) forbidden: &'static [(&'static str, &'static str)],
    /// Features of dependencies that it must not turn on: (crate, feature, reason).
    pub(crate) forbidden_features: &'static [(&'static str, &'static str, &'static str)],
    /// Its root file must say `#![no_std]`.
    pub(crate) no_std: bool,
    /// Its root file must say `#![forbid(unsafe_code)]`.
    pub(crate) no_unsafe: bool,
}

/// The workspace crates that a crate may depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Allowed {
    /// These alone.
    These(&'static [&'static str]),
    /// Any.
    Anything,
}

const CUDARC: (&str, &str) = ("cudarc", "only cuforge-launch names cudarc");
const LOADER: (&str, &str) = ("libloading", "it loads no library");
const NAGA: (&str, &str) = ("naga", "only cuforge-wgsl reads WGSL");
const CORE: Allowed = Allowed::These(&["cuforge-core"]);

const PLAIN: Room = Room {
    name: "",
    floor: 1,
    may_use: CORE,
    forbidden: &[],
    forbidden_features: &[],
    no_std: false,
    no_unsafe: false,
};

/// Every crate of the workspace, lowest floor first.
pub(crate) const HOUSE: &[Room] = &[
    Room {
        name: "cuforge-core",
        floor: 0,
        may_use: Allowed::These(&[]),
        forbidden: &[
            CUDARC,
            LOADER,
            NAGA,
            ("libc", "core does no I/O"),
            ("parking_lot", "core has no threads"),
            ("tokio", "core has no threads"),
            ("rayon", "core has no threads"),
        ],
        no_std: true,
        ..PLAIN
    },
    Room { name: "cuforge-slab", forbidden: &[CUDARC, LOADER, NAGA], no_std: true, ..PLAIN },
    Room { name: "cuforge-wgsl", forbidden: &[CUDARC, LOADER], no_unsafe: true, ..PLAIN },
    Room { name: "cuforge-compile", forbidden: &[CUDARC, NAGA], ..PLAIN },
    Room {
        name: "cuforge-launch",
        forbidden: &[NAGA],
        forbidden_features: &[("cudarc", "nvrtc", "compiling is cuforge-compile's")],
        ..PLAIN
    },
    Room { name: "cuforge-sim", forbidden: &[CUDARC, LOADER, NAGA], no_unsafe: true, ..PLAIN },
    Room {
        name: "cuforge-sim-driver",
        floor: 2,
        may_use: Allowed::These(&["cuforge-core", "cuforge-sim"]),
        forbidden: &[CUDARC, NAGA],
        ..PLAIN
    },
    Room {
        name: "cuforge",
        floor: 2,
        may_use: Allowed::These(&[
            "cuforge-core",
            "cuforge-slab",
            "cuforge-wgsl",
            "cuforge-compile",
            "cuforge-launch",
        ]),
        forbidden: &[CUDARC, LOADER, NAGA],
        ..PLAIN
    },
    Room {
        name: "cuforge-oracle",
        floor: 3,
        may_use: Allowed::These(&[
            "cuforge-core",
            "cuforge-sim",
            "cuforge-wgsl",
            "cuforge-compile",
            "cuforge",
        ]),
        forbidden: &[CUDARC, LOADER, NAGA],
        ..PLAIN
    },
    Room { name: "cuforge-tests", floor: 4, may_use: Allowed::Anything, ..PLAIN },
    Room { name: "cuforge-benches", floor: 4, may_use: Allowed::Anything, ..PLAIN },
    Room { name: "xtask", floor: 4, may_use: Allowed::Anything, no_unsafe: true, ..PLAIN },
];

/// What the house says about `name`.
pub(crate) fn room<'a>(house: &'a [Room], name: &str) -> Option<&'a Room> {
    house.iter().find(|room| room.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_allowed_arrow_points_to_a_lower_floor() {
        for from in HOUSE {
            let Allowed::These(allowed) = from.may_use else { continue };
            for name in allowed {
                let to = room(HOUSE, name).unwrap();
                assert!(to.floor < from.floor, "{} -> {}", from.name, to.name);
            }
        }
    }

    #[test]
    fn only_the_launcher_and_the_top_floor_may_name_cudarc() {
        for room in HOUSE {
            let free = room.name == "cuforge-launch" || room.floor == 4;
            assert_eq!(room.forbidden.contains(&CUDARC), !free, "{}", room.name);
        }
    }

    #[test]
    fn no_crate_stands_twice_in_the_table() {
        for (index, room) in HOUSE.iter().enumerate() {
            assert!(HOUSE[..index].iter().all(|other| other.name != room.name), "{}", room.name);
        }
    }
}
