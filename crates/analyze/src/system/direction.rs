//! Which way a copy goes.

use jarvis_trace::copies::{TO_DEVICE, TO_HOST};
use jarvis_trace::{EventId, Trace};

/// Which way a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyDirection {
    /// From the device to the host.
    DeviceToHost,
    /// From the host to the device.
    HostToDevice,
    /// Between places of device memory.
    DeviceToDevice,
    /// The recording does not tell.
    Other,
}

/// What tells a direction, in names of events and in their argument `kind`.
const FORMS: [(CopyDirection, [&str; 4]); 3] = [
    (CopyDirection::DeviceToHost, TO_HOST),
    (CopyDirection::HostToDevice, TO_DEVICE),
    (CopyDirection::DeviceToDevice, ["DtoD", "DeviceToDevice", "Device -> Device", "DEVICE_TO_DEVICE"]),
];

impl CopyDirection {
    /// All directions, in the order of tables.
    pub const ALL: [Self; 4] = [Self::DeviceToHost, Self::HostToDevice, Self::DeviceToDevice, Self::Other];

    /// From the name of a copy or of its kind.
    pub fn of_name(name: &str) -> Self {
        let tells = |forms: &[&str; 4]| forms.iter().any(|f| name.contains(f));
        FORMS.iter().find(|(_, forms)| tells(forms)).map_or(Self::Other, |(direction, _)| *direction)
    }

    /// Of a copy in a trace.
    pub(crate) fn of(trace: &Trace, copy: EventId) -> Self {
        match Self::of_name(trace.name(copy)) {
            Self::Other => {
                let kind = trace.arg(copy, "kind");
                kind.as_ref().and_then(|k| k.as_str()).map_or(Self::Other, Self::of_name)
            }
            known => known,
        }
    }

    /// Stable name in files: `D2H`, `H2D`, `D2D`, `other`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DeviceToHost => "D2H",
            Self::HostToDevice => "H2D",
            Self::DeviceToDevice => "D2D",
            Self::Other => "other",
        }
    }

    /// Whether it crosses the link between host and device.
    pub fn is_host_device(self) -> bool {
        matches!(self, Self::DeviceToHost | Self::HostToDevice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_vendors_tell_the_direction() {
        for (name, direction) in [
            ("Memcpy DtoH (Device -> Pinned)", CopyDirection::DeviceToHost),
            ("Memcpy HtoD (Pageable -> Device)", CopyDirection::HostToDevice),
            ("CopyDeviceToDevice", CopyDirection::DeviceToDevice),
            ("CopyHostToDevice", CopyDirection::HostToDevice),
            ("MEMORY_COPY_DEVICE_TO_HOST", CopyDirection::DeviceToHost),
            ("__amd_rocclr_copyBuffer", CopyDirection::Other),
            ("Memcpy PtoP (Device -> Device)", CopyDirection::DeviceToDevice),
        ] {
            assert_eq!(CopyDirection::of_name(name), direction, "{name}");
        }
    }
}
