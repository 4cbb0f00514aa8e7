//! What copies are called, with all makers: which way they go, and whether they leave the memory of their device.

/// What tells a copy from the device to the host.
pub const TO_HOST: [&str; 4] = ["DtoH", "DeviceToHost", "Device -> Host", "DEVICE_TO_HOST"];

/// What tells a copy from the host to the device.
pub const TO_DEVICE: [&str; 4] = ["HtoD", "HostToDevice", "Host -> Device", "HOST_TO_DEVICE"];

/// What tells a copy to another device.
pub const TO_PEER: [&str; 3] = ["PtoP", "PeerToPeer", "PEER_TO_PEER"];

/// How the names of copies begin.
const COPIES: [&str; 3] = ["Memcpy", "Copy", "MEMORY_COPY_"];

/// A link that a copy goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CopyLink {
    /// Between host and device.
    Host,
    /// Between devices.
    Peer,
}

impl CopyLink {
    /// Of a GPU event of this name; `None` if it is no copy, or one whose name tells no link.
    pub fn of_name(name: &str) -> Option<Self> {
        let contains = |words: &[&str]| words.iter().any(|word| name.contains(word));
        match () {
            () if !COPIES.iter().any(|start| name.starts_with(start)) => None,
            () if contains(&TO_HOST) || contains(&TO_DEVICE) => Some(Self::Host),
            () if contains(&TO_PEER) => Some(Self::Peer),
            () => None,
        }
    }

    /// In one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Peer => "peer",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_makers_tell_the_link() {
        for (name, link) in [
            ("Memcpy HtoD (Pageable -> Device)", Some(CopyLink::Host)),
            ("Memcpy DtoH (Device -> Pinned)", Some(CopyLink::Host)),
            ("CopyHostToDevice", Some(CopyLink::Host)),
            ("MEMORY_COPY_DEVICE_TO_HOST", Some(CopyLink::Host)),
            ("Memcpy PtoP (Device -> Device)", Some(CopyLink::Peer)),
            ("CopyPeerToPeer", Some(CopyLink::Peer)),
            ("Memcpy DtoD (Device -> Device)", None),
            ("CopyDeviceToDevice", None),
            ("__amd_rocclr_copyBuffer", None),
            ("void my_kernel<HtoD>(float*)", None),
        ] {
            assert_eq!(CopyLink::of_name(name), link, "{name}");
        }
    }
}
