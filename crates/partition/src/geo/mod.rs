//! Where machines are, and how far apart.

pub mod countries;
pub mod loc;
mod table;

pub(crate) use table::as_number;
pub use table::{GeoTable, Located};

/// A point on the globe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    latitude: f64,
    longitude: f64,
}

/// Kilometres that light makes in glass in a millisecond.
const FIBRE_KM_PER_MS: f64 = 200.0;
/// Mean radius of the earth in kilometres (IUGG).
const EARTH_KM: f64 = 6371.0088;

impl Position {
    /// A point by degrees north and east; `None` where there is no such point.
    pub fn new(latitude: f64, longitude: f64) -> Option<Position> {
        let is_there = latitude.abs() <= 90.0 && longitude.abs() <= 360.0;
        is_there.then(|| Position { latitude, longitude: (longitude + 540.0).rem_euclid(360.0) - 180.0 })
    }

    pub fn latitude(self) -> f64 {
        self.latitude
    }

    pub fn longitude(self) -> f64 {
        self.longitude
    }

    /// Kilometres on a great circle, by the haversine formula; within 0.5 % of the ellipsoid's.
    pub fn distance_km(self, other: Position) -> f64 {
        let (a, b) = (self.latitude.to_radians(), other.latitude.to_radians());
        let half = |x: f64| (x / 2.0).sin().powi(2);
        let h = half(b - a) + a.cos() * b.cos() * half((other.longitude - self.longitude).to_radians());
        2.0 * EARTH_KM * h.clamp(0.0, 1.0).sqrt().asin()
    }

    /// The least round-trip time in milliseconds that physics allows.
    pub fn rtt_least(self, other: Position) -> f64 {
        2.0 * self.distance_km(other) / FIBRE_KM_PER_MS
    }

    /// The round-trip time in milliseconds that is to be expected: a route is about a third longer than the straight
    /// line, and has some milliseconds of routers.
    pub fn rtt_guess(self, other: Position) -> f64 {
        4.0 + 1.35 * self.rtt_least(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_right() {
        let lisbon = Position::new(38.7223, -9.1393).unwrap();
        let porto = Position::new(41.1579, -8.6291).unwrap();
        let sydney = Position::new(-33.8688, 151.2093).unwrap();
        assert!((lisbon.distance_km(porto) - 274.0).abs() < 2.0);
        assert!((lisbon.distance_km(sydney) - 18_180.0).abs() < 40.0);
        assert_eq!(lisbon.distance_km(lisbon), 0.0);
        let (north, south) = (Position::new(90.0, 0.0).unwrap(), Position::new(-90.0, 77.0).unwrap());
        assert!((north.distance_km(south) - 20_015.0).abs() < 1.0);
        assert!((lisbon.rtt_least(sydney) - 181.8).abs() < 0.5);
    }

    #[test]
    fn points_that_there_are_not_are_refused() {
        assert_eq!(Position::new(91.0, 0.0), None);
        assert_eq!(Position::new(f64::NAN, 0.0), None);
        assert_eq!(Position::new(0.0, f64::INFINITY), None);
        assert_eq!(Position::new(0.0, 190.0).unwrap().longitude(), -170.0);
    }
}
