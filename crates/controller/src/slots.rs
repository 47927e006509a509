//! Limits the number of writes in flight. Slots can be reserved for a lane: other lanes cannot use them, however many keys they
//! have.

/// A lane; `None` for writes that belong to no lane: statuses and events.
pub type SlotLane = Option<usize>;

#[derive(Debug)]
pub struct Slots {
    limit: usize,
    /// Reserved slots per lane.
    kept: Vec<usize>,
    /// Slots in use per lane.
    used: Vec<usize>,
    used_by_none: usize,
}

impl Slots {
    /// At most half of all slots are reserved, so that the other lanes can also work.
    pub fn new(limit: usize, kept: &[usize]) -> Slots {
        let all: usize = kept.iter().sum();
        let fit = |kept: &usize| (*kept).min((*kept * (limit / 2)).checked_div(all).unwrap_or_default());
        Slots { limit, kept: kept.iter().map(fit).collect(), used: vec![0; kept.len()], used_by_none: 0 }
    }

    pub fn in_use(&self) -> usize {
        self.used.iter().sum::<usize>() + self.used_by_none
    }

    /// Number of writes that the lane may send now: the free slots, except those reserved for other lanes.
    pub fn free_for(&self, lane: SlotLane) -> usize {
        let others = self.kept.iter().zip(&self.used).enumerate().filter(|(other, _)| Some(*other) != lane);
        let kept_for_others: usize = others.map(|(_, (kept, used))| kept.saturating_sub(*used)).sum();
        self.limit.saturating_sub(self.in_use() + kept_for_others)
    }

    pub fn take(&mut self, lane: SlotLane) {
        *self.used_by(lane) += 1;
    }

    pub fn give_back(&mut self, lane: SlotLane) {
        let used = self.used_by(lane);
        *used = used.saturating_sub(1);
    }

    fn used_by(&mut self, lane: SlotLane) -> &mut usize {
        match lane {
            Some(lane) => &mut self.used[lane],
            None => &mut self.used_by_none,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lane_alone_has_all_of_them() {
        let mut slots = Slots::new(8, &[0]);
        assert_eq!((slots.free_for(Some(0)), slots.free_for(None)), (8, 8));
        (0..8).for_each(|_| slots.take(Some(0)));
        assert_eq!((slots.free_for(Some(0)), slots.free_for(None), slots.in_use()), (0, 0, 8));
        slots.give_back(Some(0));
        assert_eq!(slots.free_for(None), 1);
    }

    #[test]
    fn what_is_kept_for_a_lane_nobody_else_takes() {
        let mut slots = Slots::new(8, &[0, 2]);
        assert_eq!((slots.free_for(Some(0)), slots.free_for(Some(1)), slots.free_for(None)), (6, 8, 6));
        (0..6).for_each(|_| slots.take(Some(0)));
        assert_eq!((slots.free_for(Some(0)), slots.free_for(Some(1)), slots.free_for(None)), (0, 2, 0));
        slots.take(Some(1));
        assert_eq!((slots.free_for(Some(0)), slots.free_for(Some(1))), (0, 1));
        slots.give_back(Some(0));
        assert_eq!((slots.free_for(Some(0)), slots.free_for(Some(1))), (1, 2));
    }

    #[test]
    fn of_few_slots_not_all_are_kept() {
        for limit in 1..6 {
            assert!(Slots::new(limit, &[0, 2]).free_for(Some(0)) > 0, "{limit}");
        }
    }
}
