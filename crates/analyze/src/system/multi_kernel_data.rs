//! `multi_kernel_data.json`, and the same blocks in milliseconds for `multi_kernel_metrics.json`.

use jarvis_trace::Ns;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::System;
use super::communication::{Collective, Communication, LongKernel};
use super::copies::{Copies, DirectionCopies};
use super::direction::CopyDirection;
use crate::rounding::{Ms, Percent, Ratio, Us};

/// Unit of the times in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Keys end in `_us`.
    Microseconds,
    /// Keys end in `_ms`.
    Milliseconds,
}

impl TimeUnit {
    fn key(self, name: &str) -> String {
        format!("{name}_{}", if self == Self::Microseconds { "us" } else { "ms" })
    }

    fn entry<M: SerializeMap>(self, map: &mut M, name: &str, time: Ns) -> Result<(), M::Error> {
        match self {
            Self::Microseconds => map.serialize_entry(&self.key(name), &Us(time.as_us())),
            Self::Milliseconds => map.serialize_entry(&self.key(name), &Ms(time.as_ms())),
        }
    }
}

/// `multi_kernel_data.json`.
#[derive(Debug, Clone, serde::Serialize)]
pub struct MultiKernelData {
    /// Copies.
    pub memcpy_summary: MemcpySummary,
    /// Collective communication. The key is kept for readers of older files.
    pub nccl_summary: CommunicationSummary,
    /// What hides what.
    pub overlap_analysis: OverlapAnalysis,
}

impl MultiKernelData {
    /// The data of a trace, times in microseconds.
    pub fn of(system: &System) -> Self {
        Self::in_unit(system, TimeUnit::Microseconds)
    }

    pub(crate) fn in_unit(system: &System, unit: TimeUnit) -> Self {
        Self {
            memcpy_summary: MemcpySummary { unit, copies: system.copies.clone() },
            nccl_summary: CommunicationSummary { unit, communication: system.communication.clone() },
            overlap_analysis: OverlapAnalysis::of(system, unit),
        }
    }
}

/// Copies by direction.
#[derive(Debug, Clone)]
pub struct MemcpySummary {
    unit: TimeUnit,
    copies: Copies,
}

impl Serialize for MemcpySummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("total_count", &self.copies.count())?;
        self.unit.entry(&mut map, "total_time", self.copies.by_direction.iter().map(|d| d.time).sum())?;
        map.serialize_entry("by_direction", &ByDirection(self))?;
        map.end()
    }
}

struct ByDirection<'a>(&'a MemcpySummary);

impl Serialize for ByDirection<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (unit, copies) = (self.0.unit, &self.0.copies);
        let there = CopyDirection::ALL.into_iter().filter(|&d| copies.direction(d).count > 0);
        serializer.collect_map(there.map(|d| (d.as_str(), OneDirection { unit, copies: *copies.direction(d) })))
    }
}

struct OneDirection {
    unit: TimeUnit,
    copies: DirectionCopies,
}

impl Serialize for OneDirection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let c = &self.copies;
        let count = c.count as i64;
        let mut map = serializer.serialize_map(Some(8))?;
        map.serialize_entry("count", &c.count)?;
        self.unit.entry(&mut map, "total_time", c.time)?;
        self.unit.entry(&mut map, "avg_time", Ns(c.time.0 / count.max(1)))?;
        self.unit.entry(&mut map, "max_time", c.longest)?;
        map.serialize_entry("total_bytes", &c.bytes)?;
        map.serialize_entry("avg_bytes", &(c.bytes / count.max(1)))?;
        self.unit.entry(&mut map, "exposed_time", c.exposed)?;
        map.serialize_entry("sync_like_count", &c.waited_for)?;
        map.end()
    }
}

/// Collective communication.
#[derive(Debug, Clone)]
pub struct CommunicationSummary {
    unit: TimeUnit,
    communication: Communication,
}

impl Serialize for CommunicationSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (unit, c) = (self.unit, &self.communication);
        let mut map = serializer.serialize_map(Some(6))?;
        map.serialize_entry("total_count", &c.count)?;
        unit.entry(&mut map, "total_time", c.time)?;
        unit.entry(&mut map, "avg_time", Ns(c.time.0 / (c.count as i64).max(1)))?;
        unit.entry(&mut map, "max_time", c.longest)?;
        map.serialize_entry("top_ops", &c.top.iter().map(|k| TopKernel(unit, k)).collect::<Vec<_>>())?;
        let by = c.collectives.iter().map(|c| OneCollective(unit, c)).collect::<Vec<_>>();
        map.serialize_entry("by_collective", &by)?;
        map.end()
    }
}

struct TopKernel<'a>(TimeUnit, &'a LongKernel);

impl Serialize for TopKernel<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("name", &self.1.name)?;
        self.0.entry(&mut map, "duration", self.1.time)?;
        map.serialize_entry("stream", &self.1.stream)?;
        map.end()
    }
}

struct OneCollective<'a>(TimeUnit, &'a Collective);

impl Serialize for OneCollective<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let c = self.1;
        let mut map = serializer.serialize_map(Some(7))?;
        map.serialize_entry("collective", &c.name)?;
        map.serialize_entry("group_size", &c.group_size)?;
        map.serialize_entry("dtype", &c.dtype)?;
        map.serialize_entry("message_bytes", &c.message_bytes)?;
        map.serialize_entry("count", &c.count)?;
        self.0.entry(&mut map, "total_time", c.time)?;
        self.0.entry(&mut map, "exposed_time", c.exposed)?;
        map.end()
    }
}

/// What hides what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverlapAnalysis {
    unit: TimeUnit,
    total: Ns,
    computation: Ns,
    communication: Ns,
    exposed_communication: Ns,
    memcpy: Ns,
    exposed_memcpy: Ns,
}

impl OverlapAnalysis {
    fn of(system: &System, unit: TimeUnit) -> Self {
        Self {
            unit,
            total: system.gaps.window,
            computation: system.communication.computation,
            communication: system.communication.covered,
            exposed_communication: system.communication.exposed,
            memcpy: system.copies.covered,
            exposed_memcpy: system.copies.exposed,
        }
    }
}

/// Share that is hidden; nothing to hide is not applicable.
fn hidden(exposed: Ns, all: Ns) -> Option<Ratio> {
    (all.0 > 0).then(|| Ratio(1.0 - exposed.0 as f64 / all.0 as f64))
}

impl Serialize for OverlapAnalysis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let share = |part| Percent(super::gaps::percent(part, self.total));
        let mut map = serializer.serialize_map(Some(10))?;
        self.unit.entry(&mut map, "total_time", self.total)?;
        self.unit.entry(&mut map, "computation_time", self.computation)?;
        self.unit.entry(&mut map, "total_comm_time", self.communication)?;
        self.unit.entry(&mut map, "exposed_comm_time", self.exposed_communication)?;
        self.unit.entry(&mut map, "total_memcpy_time", self.memcpy)?;
        self.unit.entry(&mut map, "exposed_memcpy_time", self.exposed_memcpy)?;
        map.serialize_entry("comm_overlap_ratio", &hidden(self.exposed_communication, self.communication))?;
        map.serialize_entry("memcpy_overlap_ratio", &hidden(self.exposed_memcpy, self.memcpy))?;
        map.serialize_entry("comm_percent_of_total", &share(self.communication))?;
        map.serialize_entry("memcpy_percent_of_total", &share(self.memcpy))?;
        map.end()
    }
}
