//! Discs on the earth, and whether some place lies inside some of them and outside others.
//!
//! A yes is proved by a place that holds with a margin of [`MARGIN`], a no by looking at every place where the border of
//! what is left could turn: crossings of two circles, a point of each whole circle, and centres. What is thinner than the
//! margin stays unknown.

use super::Answer;

/// Mean radius of the earth in metres; the earth is taken for a sphere.
pub const EARTH: f64 = 6_371_008.8;

/// Metres by which a place must hold to count as a proof, and may miss before its failing counts as one.
pub const MARGIN: f64 = 10.0;

/// Directions in which points around a circle or a crossing are tried.
const DIRECTIONS: u32 = 16;

/// A place in units of a ten-thousandth of a degree, about eleven metres: equal texts are equal places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// North of the equator, from -900,000 to 900,000.
    pub lat: i32,
    /// East of Greenwich, from -1,800,000 to 1,800,000.
    pub lon: i32,
}

/// A closed disc, or what lies outside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Disc {
    /// Its middle.
    pub centre: Place,
    /// Along the surface.
    pub radius_metres: u32,
}

/// A direction from the middle of the earth, of length one.
#[derive(Clone, Copy, Debug)]
struct Point([f64; 3]);

impl Place {
    /// Metres to another place along a great circle.
    pub fn metres_to(self, other: Place) -> f64 {
        Point::of(self).metres_to(Point::of(other))
    }

    /// The place at these degrees; none where they are on no globe.
    pub fn at(lat: f64, lon: f64) -> Option<Place> {
        let on_globe = (-90.0..=90.0).contains(&lat) && (-180.0..=180.0).contains(&lon);
        let units = |degrees: f64| (degrees * 1e4).round() as i32;
        on_globe.then(|| Place { lat: units(lat), lon: units(lon) })
    }
}

impl Disc {
    /// Whether the place lies in it.
    pub fn has(self, place: Place) -> bool {
        self.centre.metres_to(place) <= f64::from(self.radius_metres)
    }
}

impl Point {
    fn of(place: Place) -> Point {
        let (lat, lon) =
            ((f64::from(place.lat) / 1e4).to_radians(), (f64::from(place.lon) / 1e4).to_radians());
        Point([lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()])
    }

    fn place(self) -> Place {
        let Point([x, y, z]) = self;
        let units = |radians: f64| (radians.to_degrees() * 1e4).round() as i32;
        Place { lat: units(z.atan2(x.hypot(y))), lon: units(y.atan2(x)) }
    }

    fn dot(self, other: Point) -> f64 {
        self.0.iter().zip(other.0).map(|(a, b)| a * b).sum()
    }

    fn cross(self, other: Point) -> Point {
        let (Point([a, b, c]), Point([x, y, z])) = (self, other);
        Point([b * z - c * y, c * x - a * z, a * y - b * x])
    }

    fn sum(parts: &[(f64, Point)]) -> Point {
        let mut sum = [0.0; 3];
        for (factor, point) in parts {
            for (total, part) in sum.iter_mut().zip(point.0) {
                *total += factor * part;
            }
        }
        Point(sum)
    }

    fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    fn normal(self) -> Point {
        Point::sum(&[(1.0 / self.length(), self)])
    }

    /// The arc is taken from both sine and cosine, so that it is exact for near places too.
    fn metres_to(self, other: Point) -> f64 {
        self.cross(other).length().atan2(self.dot(other)) * EARTH
    }

    /// The points so many metres away, evenly around.
    fn around(self, metres: f64) -> impl Iterator<Item = Point> {
        let helper = if self.0[2].abs() < 0.9 { Point([0.0, 0.0, 1.0]) } else { Point([1.0, 0.0, 0.0]) };
        let east = helper.cross(self).normal();
        let north = self.cross(east);
        let arc = metres / EARTH;
        (0..DIRECTIONS).map(move |i| {
            let turn = f64::from(i) * std::f64::consts::TAU / f64::from(DIRECTIONS);
            let parts = [(arc.cos(), self), (arc.sin() * turn.cos(), north), (arc.sin() * turn.sin(), east)];
            Point::sum(&parts).normal()
        })
    }
}

/// Whether some place lies in all discs of the first list and in none of the second; with a place for a yes.
pub fn solve(inside: &[Disc], outside: &[Disc]) -> (Answer, Option<Place>) {
    let half_round = std::f64::consts::PI * EARTH;
    if outside.iter().any(|disc| f64::from(disc.radius_metres) >= half_round) {
        return (Answer::No, None);
    }
    let metres = |a: &Disc, b: &Disc| a.centre.metres_to(b.centre);
    for (i, a) in inside.iter().enumerate() {
        let r = f64::from(a.radius_metres);
        let apart = |b: &Disc| metres(a, b) > r + f64::from(b.radius_metres);
        let within = |b: &Disc| metres(a, b) + r <= f64::from(b.radius_metres);
        if inside[i + 1..].iter().any(apart) || outside.iter().any(within) {
            return (Answer::No, None);
        }
    }
    match (inside, outside) {
        ([], []) => return (Answer::Yes, Some(Place { lat: 0, lon: 0 })),
        ([one], []) => return (Answer::Yes, Some(one.centre)),
        _ => {}
    }
    let circles: Vec<(Point, f64, bool)> = inside
        .iter()
        .map(|disc| (disc, true))
        .chain(outside.iter().map(|disc| (disc, false)))
        .map(|(disc, is_inside)| (Point::of(disc.centre), f64::from(disc.radius_metres), is_inside))
        .collect();
    let answer = search(&circles);
    // Two discs that meet do so, however thin the lens is.
    match (answer, inside, outside) {
        ((Answer::Unknown | Answer::No, _), [a, b], []) => (Answer::Yes, touching(a, b)),
        (answer, _, _) => answer,
    }
}

/// The place between two discs that meet, where it survives rounding.
fn touching(a: &Disc, b: &Disc) -> Option<Place> {
    let (p, q) = (Point::of(a.centre), Point::of(b.centre));
    let total = f64::from(a.radius_metres) + f64::from(b.radius_metres);
    let share = if total > 0.0 { f64::from(a.radius_metres) / total } else { 0.0 };
    let between = Point::sum(&[(1.0 - share, p), (share, q)]);
    let place = (between.length() > 0.0).then(|| between.normal().place())?;
    (a.has(place) && b.has(place)).then_some(place)
}

fn search(circles: &[(Point, f64, bool)]) -> (Answer, Option<Place>) {
    // By how many metres the point fulfils the condition that it fulfils worst.
    let slack = |point: Point| {
        let each = circles.iter().map(|(centre, radius, is_inside)| {
            let inward = radius - centre.metres_to(point);
            if *is_inside { inward } else { -inward }
        });
        each.fold(f64::INFINITY, f64::min)
    };
    let mut ends = Vec::new();
    let mut near = Vec::new();
    let mut exact = true;
    for (i, &(centre, radius, _)) in circles.iter().enumerate() {
        ends.extend([centre, Point::sum(&[(-1.0, centre)])]);
        ends.extend(centre.around(radius));
        near.extend(centre.around(radius + 3.0 * MARGIN));
        near.extend(centre.around((radius - 3.0 * MARGIN).max(0.0)));
        for &(other, other_radius, _) in &circles[i + 1..] {
            for crossing in crossings(centre, radius, other, other_radius) {
                let off = (centre.metres_to(crossing) - radius).abs();
                let other_off = (other.metres_to(crossing) - other_radius).abs();
                exact &= off.max(other_off) < MARGIN / 4.0;
                ends.push(crossing);
                near.extend(crossing.around(3.0 * MARGIN));
            }
        }
    }
    let best = ends.iter().chain(&near).copied().max_by(|a, b| slack(*a).total_cmp(&slack(*b)));
    if let Some(best) = best.filter(|point| slack(*point) >= MARGIN) {
        return (Answer::Yes, Some(best.place()));
    }
    let none_near = ends.iter().all(|point| slack(*point) < -MARGIN);
    (if none_near && exact { Answer::No } else { Answer::Unknown }, None)
}

/// Where two circles cross: twice, or nowhere. Concentric ones never do.
fn crossings(a: Point, a_metres: f64, b: Point, b_metres: f64) -> Vec<Point> {
    let along = a.cross(b);
    let square = along.dot(along);
    if square < 1e-24 {
        return Vec::new();
    }
    let c = a.dot(b);
    let (cos_a, cos_b) = ((a_metres / EARTH).cos(), (b_metres / EARTH).cos());
    let (u, v) = ((cos_a - c * cos_b) / square, (cos_b - c * cos_a) / square);
    let height = (1.0 - u * u - v * v - 2.0 * u * v * c) / square;
    // Circles that just fail to touch by rounding count as touching.
    if height < -1e-9 {
        return Vec::new();
    }
    let w = height.max(0.0).sqrt();
    [w, -w].map(|w| Point::sum(&[(u, a), (v, b), (w, along)]).normal()).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn disc(lat: f64, lon: f64, km: u32) -> Disc {
        Disc { centre: Place::at(lat, lon).unwrap(), radius_metres: km * 1000 }
    }

    #[test]
    fn distances_are_those_of_the_great_circle() {
        let (recife, joao_pessoa, natal) =
            (disc(-8.0476, -34.877, 0), disc(-7.1195, -34.845, 0), disc(-5.7945, -35.211, 0));
        let km = |a: Disc, b: Disc| (a.centre.metres_to(b.centre) / 10.0).round() / 100.0;
        assert_eq!((km(recife, joao_pessoa), km(recife, natal)), (103.26, 253.23));
        let quarter = disc(0.0, 0.0, 0).centre.metres_to(disc(90.0, 0.0, 0).centre);
        assert!((quarter - EARTH * std::f64::consts::FRAC_PI_2).abs() < 1e-6);
    }

    #[test]
    fn what_is_thinner_than_the_margin_is_unknown() {
        let (a, b) = (disc(0.0, 0.0, 100), disc(0.0, 0.0001, 100));
        assert_eq!(solve(&[a], &[b]).0, Answer::Unknown);
        assert_eq!(solve(&[a], &[a]).0, Answer::No);
        assert_eq!(solve(&[a], &[disc(0.0, 0.01, 100)]).0, Answer::Yes);
    }

    /// A mesh over a country, 0.04 degrees apart.
    fn mesh() -> impl Iterator<Item = Place> {
        (-75..75).flat_map(|i| (-75..75).map(move |j| Place { lat: i * 400, lon: j * 400 }))
    }

    fn discs(count: usize) -> impl Strategy<Value = Vec<Disc>> {
        let one = (-20..20i32, -20..20i32, 1..250u32).prop_map(|(lat, lon, km)| Disc {
            centre: Place { lat: lat * 1000, lon: lon * 1000 },
            radius_metres: km * 1000,
        });
        proptest::collection::vec(one, 0..count)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn no_place_of_a_mesh_contradicts_the_solver(inside in discs(4), outside in discs(4)) {
            let holds = |place: &Place| inside.iter().all(|d| d.has(*place)) && !outside.iter().any(|d| d.has(*place));
            match solve(&inside, &outside) {
                (Answer::No, _) => prop_assert_eq!(mesh().find(holds), None),
                (Answer::Yes, place) => prop_assert!(place.is_none_or(|place| holds(&place))),
                (Answer::Unknown, _) => {}
            }
        }
    }
}
