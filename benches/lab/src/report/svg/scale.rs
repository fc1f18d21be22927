//! Axes: amounts to coordinates, with marks at round amounts.

/// An axis: linear from zero to a round amount, or logarithmic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    kind: Kind,
    from: f64,
    to: f64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Linear { step: f64, marks: u32 },
    Logarithmic { lowest: f64, highest: f64 },
}

impl Scale {
    /// An axis between `from` and `to` that reaches `largest` in at most `marks` steps of 1, 2, 2.5 or 5 times a power of ten.
    /// An amount that is not positive and finite counts as one.
    pub(crate) fn new(largest: f64, marks: u32, from: f64, to: f64) -> Self {
        // Bounds keep the powers of ten below within the range of a float.
        let largest = if largest.is_finite() && largest > 0.0 { largest.clamp(1e-200, 1e200) } else { 1.0 };
        let least = largest / f64::from(marks.max(1));
        let power = 10f64.powi(least.log10().floor() as i32);
        let step =
            [1.0, 2.0, 2.5, 5.0, 10.0].map(|unit| unit * power).into_iter().find(|step| *step >= least * 0.999_999);
        let step = step.unwrap_or(10.0 * power);
        Self { kind: Kind::Linear { step, marks: ((largest / step - 1e-6).ceil() as u32).max(1) }, from, to }
    }

    /// A logarithmic axis between `from` and `to`. An amount that is not positive and finite counts as one.
    pub(crate) fn logarithmic(lowest: f64, highest: f64, from: f64, to: f64) -> Self {
        let sane = |amount: f64| if amount.is_finite() && amount > 0.0 { amount.clamp(1e-200, 1e200) } else { 1.0 };
        let lowest = sane(lowest);
        Self { kind: Kind::Logarithmic { lowest, highest: sane(highest).max(lowest * 2.0) }, from, to }
    }

    /// Coordinate of `value`; amounts beyond the axis are at its ends.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = match self.kind {
            Kind::Linear { step, marks } => value / (step * f64::from(marks)),
            Kind::Logarithmic { lowest, highest } => (value / lowest).ln() / (highest / lowest).ln(),
        };
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        share.mul_add(self.to - self.from, self.from)
    }

    /// Places and labels of the marks: those of a linear axis with zero, those of a logarithmic one at 1, 2 and 5 times powers
    /// of ten.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        match self.kind {
            Kind::Linear { step, marks } => {
                let mark = |i: u32| step * f64::from(i);
                // As many decimals as the step needs, so that 0.25 is not labelled 0.2.
                let label = |i| if i == 0 { "0".into() } else { label(mark(i), mark(marks), step) };
                (0..=marks).map(|i| (self.at(mark(i)), label(i))).collect()
            }
            Kind::Logarithmic { lowest, highest } => {
                let powers = lowest.log10().floor() as i32..=highest.log10().floor() as i32;
                let marks = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|unit| unit * 10f64.powi(power)));
                let within = marks.filter(|mark| (lowest * 0.999_999..=highest * 1.000_001).contains(mark));
                within.map(|mark| (self.at(mark), label(mark, mark, mark))).collect()
            }
        }
    }
}

/// An amount on an axis that reaches `top`, with as many decimals as `step` needs.
fn label(amount: f64, top: f64, step: f64) -> String {
    let (unit, suffix) = match top {
        t if !(1e-4..1e15).contains(&t) => return format!("{amount:.1e}"),
        t if t >= 1e12 => (1e12, "T"),
        t if t >= 1e9 => (1e9, "G"),
        t if t >= 1e6 => (1e6, "M"),
        t if t >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let decimals = (0..8).find(|d| is_whole(step / unit * 10f64.powi(*d))).unwrap_or(8) as usize;
    format!("{:.decimals$}{suffix}", amount / unit)
}

fn is_whole(value: f64) -> bool {
    (value - value.round()).abs() < 1e-6 * value.abs().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(largest: f64) -> Vec<String> {
        Scale::new(largest, 5, 0.0, 100.0).ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn marks_are_round_and_reach_the_largest() {
        assert_eq!(labels(812_345.0), ["0", "0.2M", "0.4M", "0.6M", "0.8M", "1.0M"]);
        assert_eq!(labels(1_200_000.0), ["0", "0.25M", "0.50M", "0.75M", "1.00M", "1.25M"]);
        assert_eq!(labels(2_400_000.0), ["0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M"]);
        assert_eq!(labels(2.41), ["0", "0.5", "1.0", "1.5", "2.0", "2.5"]);
        assert_eq!(labels(43_000.0), ["0", "10k", "20k", "30k", "40k", "50k"]);
        assert_eq!(labels(1.1), ["0", "0.25", "0.50", "0.75", "1.00", "1.25"]);
        assert_eq!(labels(0.0), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        for power in -210..=210 {
            for digit in [1.0, 1.3, 2.0, 2.6, 5.0, 9.9] {
                let largest = digit * 10f64.powi(power);
                let scale = Scale::new(largest, 5, 10.0, 110.0);
                let ticks = scale.ticks();
                assert!((2..=7).contains(&ticks.len()), "{largest:e}: {ticks:?}");
                assert!((10.0..=110.0).contains(&scale.at(largest)), "{largest:e}");
                assert!((-200..=200).contains(&power).then(|| scale.at(largest) > 55.0) != Some(false), "{largest:e}");
                assert!(ticks.is_sorted_by(|a, b| a.0 < b.0), "{largest:e}: {ticks:?}");
            }
        }
    }

    #[test]
    fn equal_ratios_are_equally_far_apart() {
        let scale = Scale::logarithmic(1.0, 256.0, 0.0, 80.0);
        for power in 0..=8 {
            assert!((scale.at(2f64.powi(power)) - f64::from(power) * 10.0).abs() < 1e-9);
        }
        let labels: Vec<String> = scale.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["1", "2", "5", "10", "20", "50", "100", "200"]);
        let labels = Scale::logarithmic(1_190_000.0, 11_500_000.0, 0.0, 1.0).ticks();
        assert_eq!(labels.into_iter().map(|(_, label)| label).collect::<Vec<_>>(), ["2M", "5M", "10M"]);
        for odd in [f64::NAN, f64::INFINITY, 0.0, -1.0, f64::MIN_POSITIVE, f64::MAX] {
            let scale = Scale::logarithmic(odd, odd, 0.0, 100.0);
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, 1e300] {
                assert!((0.0..=100.0).contains(&scale.at(value)), "{odd} {value}");
            }
            assert!(scale.ticks().len() < 5);
        }
    }

    #[test]
    fn nothing_odd_comes_out() {
        for largest in [f64::NAN, f64::INFINITY, -1.0, f64::MIN_POSITIVE, f64::MAX] {
            let scale = Scale::new(largest, 5, 0.0, 100.0);
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, 1e300] {
                assert!((0.0..=100.0).contains(&scale.at(value)), "{largest} {value}");
            }
        }
    }
}
