//! The GPUs of a recording: those that the process saw, and those that worked.

use std::collections::BTreeMap;

use crate::model::{Facts, Id, Ns, Trace};

/// A GPU in the recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Device {
    /// As the driver calls it; empty if the recording does not say.
    pub name: String,
    /// Number in the recording.
    pub id: i64,
    /// Multiprocessors or compute units.
    pub multiprocessors: Option<i64>,
    /// Bytes of device memory.
    pub memory: Option<i64>,
}

impl Device {
    /// Whether nothing tells them apart but the number.
    pub fn is_same_model(&self, other: &Self) -> bool {
        (&self.name, self.multiprocessors, self.memory) == (&other.name, other.multiprocessors, other.memory)
    }
}

impl Facts {
    /// The GPUs the recording process saw, whether it used them or not.
    pub fn devices(&self) -> Vec<Device> {
        let list = self.value("deviceProperties");
        let list = list.as_ref().and_then(|v| v.as_array()).map_or(&[][..], Vec::as_slice);
        list.iter()
            .map(|d| Device {
                name: d["name"].as_str().unwrap_or_default().to_owned(),
                id: d["id"].as_i64().unwrap_or_default(),
                multiprocessors: d["numSms"].as_i64(),
                memory: d["totalGlobalMem"].as_i64(),
            })
            .collect()
    }
}

impl Trace {
    /// The models of GPU that worked, the one with most GPU time first. Where the process saw one model alone it is that
    /// one, whether anything ran or not.
    pub fn models_at_work(&self) -> Vec<Device> {
        let devices = self.facts().devices();
        let Some(first) = devices.first() else { return Vec::new() };
        if devices.iter().all(|d| d.is_same_model(first)) {
            return vec![first.clone()];
        }
        // Only here it takes a look at the events.
        let mut times: BTreeMap<Id, Ns> = BTreeMap::new();
        for e in self.events().filter(|&e| self.kind(e).is_gpu()) {
            let time = times.entry(self.track(self.track_id(e)).pid).or_default();
            *time = *time + self.dur(e).unwrap_or_default();
        }
        let mut times: Vec<(Id, Ns)> = times.into_iter().collect();
        times.sort_by_key(|&(_, time)| std::cmp::Reverse(time));
        let mut models: Vec<Device> = Vec::new();
        for device in times.iter().filter_map(|(id, _)| devices.iter().find(|d| Id::Int(d.id) == *id)) {
            if !models.iter().any(|known| known.is_same_model(device)) {
                models.push(device.clone());
            }
        }
        if models.is_empty() { vec![first.clone()] } else { models }
    }
}

#[cfg(test)]
mod tests {
    use crate::TraceBuilder;

    fn at_work(properties: &str, kernels: &[(i64, f64)]) -> Vec<String> {
        let mut b = TraceBuilder::new();
        b.fact("deviceProperties", properties);
        for (i, &(device, dur)) in kernels.iter().enumerate() {
            b.gpu("kernel", "k", 100.0 * i as f64, dur, i as i64, 7).on(device, 7);
        }
        b.build().models_at_work().into_iter().map(|d| d.name).collect()
    }

    #[test]
    fn the_gpu_that_worked_counts_not_the_first() {
        let two = r#"[{"id": 0, "name": "A100"}, {"id": 1, "name": "H100"}]"#;
        assert_eq!(at_work(two, &[(1, 5.0)]), ["H100"]);
        assert_eq!(at_work(two, &[(0, 5.0)]), ["A100"]);
        assert_eq!(at_work(two, &[(0, 5.0), (1, 7.0)]), ["H100", "A100"]);
        let turned = r#"[{"id": 1, "name": "H100"}, {"id": 0, "name": "A100"}]"#;
        assert_eq!(at_work(turned, &[(0, 5.0)]), ["A100"]);
        assert_eq!(at_work(two, &[]), ["A100"], "nothing ran");
        assert_eq!(at_work(r#"[{"id": 0, "name": "A"}, {"id": 1, "name": "A"}]"#, &[(1, 5.0)]), ["A"]);
        assert!(at_work("[]", &[(1, 5.0)]).is_empty());
    }
}
