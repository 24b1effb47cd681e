//! Seeds as people type them.

use farol_base::CanonicalUrl;

/// Reads a seed as people type it: the scheme may be missing.
pub fn read_seed(text: &str) -> Result<CanonicalUrl, String> {
    let text = text.trim();
    let full = if text.contains("://") { text.to_string() } else { format!("https://{text}") };
    let url = CanonicalUrl::parse(&full).map_err(|error| format!("{text:?} cannot be a seed: {error}"))?;
    let name = url.host().name().to_string();
    if !name.contains('.') && !name.starts_with('[') && name != "localhost" && !text.contains("://") {
        return Err(format!(
            "{text:?} cannot be a seed: write a whole address, such as https://docs.example.org"
        ));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_as_people_type_them() {
        assert_eq!(read_seed(" docs.example.org/x ").unwrap().as_str(), "https://docs.example.org/x");
        assert_eq!(read_seed("http://h/").unwrap().as_str(), "http://h/");
        assert!(read_seed("hello").unwrap_err().contains("https://docs.example.org"));
        assert!(read_seed("ftp://x.org/").unwrap_err().contains("http and https"));
        assert!(read_seed("").is_err());
    }
}
