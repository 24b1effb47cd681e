//! Serves the pages over a made-up engine, to look at them: `cargo run -p farol-front --example preview -- 8099`.
//!
//! Further arguments: `token=SECRET` opens the admin pages, `rate=N` limits questions per minute, `cluster` makes it
//! a member of one, of which a part does not answer.

use farol_base::query::ShardsAnswered;
use farol_front::{Settings, fake::Fake, serve};
use std::sync::Arc;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut port = 8099;
    let mut fake = Fake::default();
    let mut settings = Settings {
        operator: "Biblioteca do Litoral".into(),
        contact: "farol@example.org".into(),
        user_agent: "Farol/0.1 (+https://search.example.org/about)".into(),
        rate_per_minute: 0,
        ..Settings::default()
    };
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("token", token)) => settings.admin_token = Some(token.to_string()),
            Some(("rate", rate)) => settings.rate_per_minute = rate.parse().unwrap_or(0),
            None if argument == "cluster" => {
                fake.in_cluster = true;
                fake.shards = Some(ShardsAnswered { total: 3, answered: 2 });
            }
            _ => port = argument.parse().unwrap_or(port),
        }
    }
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("http://{}/", listener.local_addr()?);
    serve(listener, Arc::new(fake), settings).await;
    Ok(())
}
