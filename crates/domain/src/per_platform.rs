//! One value for each platform.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use crate::platform::Platform;

/// One value for each platform that has one, in the order in which platforms are declared.
///
/// There are a handful of platforms, and finding one compares addresses: no hashing on the path of
/// a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerPlatform<T>(Vec<(Platform, T)>);

impl<T> PerPlatform<T> {
    /// The value that a function returns for each declared platform.
    pub fn of_all(mut value: impl FnMut(Platform) -> T) -> Self {
        Self(Platform::all().into_iter().map(|platform| (platform, value(platform))).collect())
    }

    /// The value of one platform.
    #[inline]
    pub fn get(&self, platform: Platform) -> Option<&T> {
        self.0.iter().find(|(known, _)| *known == platform).map(|(_, value)| value)
    }

    /// The value of one platform, to be changed.
    pub fn get_mut(&mut self, platform: Platform) -> Option<&mut T> {
        self.0.iter_mut().find(|(known, _)| *known == platform).map(|(_, value)| value)
    }

    /// Sets the value of one platform, and returns the one before.
    pub fn insert(&mut self, platform: Platform, value: T) -> Option<T> {
        match self.get_mut(platform) {
            Some(before) => Some(std::mem::replace(before, value)),
            None => {
                let all = Platform::all();
                let rank = |of: Platform| all.iter().position(|it| *it == of).unwrap_or(usize::MAX);
                let place = self.0.partition_point(|(known, _)| rank(*known) <= rank(platform));
                self.0.insert(place, (platform, value));
                None
            }
        }
    }

    /// Each platform with its value.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Platform, &T)> + Clone {
        self.0.iter().map(|(platform, value)| (*platform, value))
    }

    /// Each value, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Whether no platform has a value.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for PerPlatform<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> FromIterator<(Platform, T)> for PerPlatform<T> {
    /// Of several values of one platform the last is kept.
    fn from_iter<I: IntoIterator<Item = (Platform, T)>>(values: I) -> Self {
        let mut all = Self::default();
        for (platform, value) in values {
            all.insert(platform, value);
        }
        all
    }
}

impl<T: Serialize> Serialize for PerPlatform<T> {
    /// As an object whose members are the names of the platforms.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for PerPlatform<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Members<T> {
            type Value = PerPlatform<T>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object whose members are names of platforms")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut members: A,
            ) -> Result<Self::Value, A::Error> {
                let mut all = PerPlatform::default();
                while let Some((platform, value)) = members.next_entry::<Platform, T>()? {
                    if all.insert(platform, value).is_some() {
                        return Err(serde::de::Error::custom(format!("must name {platform} once")));
                    }
                }
                Ok(all)
            }
        }

        from.deserialize_map(Members(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_platform_and_replaced_in_place() {
        let mut values = PerPlatform::of_all(|platform| platform.as_str().len());

        assert_eq!(values.get(Platform::BETA), Some(&13));
        assert_eq!(values.insert(Platform::BETA, 1), Some(13));
        assert_eq!(values.get(Platform::BETA), Some(&1));
        assert_eq!(values.iter().len(), 4);
        assert_eq!(PerPlatform::<u8>::default().get(Platform::ALPHA), None);
    }

    #[test]
    fn json_has_a_member_for_each_platform_and_refuses_others() {
        let values: PerPlatform<u8> = serde_json::from_str(r#"{"platform_delta":7}"#).unwrap();

        assert_eq!(serde_json::to_string(&values).unwrap(), r#"{"platform_delta":7}"#);
        for wrong in [r#"{"platform_omega":1}"#, "[]", r#"{"platform_beta":1,"platform_beta":2}"#] {
            assert!(serde_json::from_str::<PerPlatform<u8>>(wrong).is_err(), "{wrong}");
        }
    }
}
