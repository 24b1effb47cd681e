//! Leads agents in namespaces to the made-up Web, which answers on loopback only, and notes who asked when.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// A thread copies in one direction.
const STACK_BYTES: usize = 128 << 10;
const CHUNK_BYTES: usize = 16 << 10;

/// Who sent something, and when.
type Asked = Arc<Mutex<Vec<(IpAddr, Instant)>>>;

/// Takes connections to any address at one port to the same address at the Web's.
pub struct Relay {
    pub port: u16,
    asked: Asked,
}

impl Relay {
    /// Runs as long as this program.
    pub fn start(web: u16) -> std::io::Result<Relay> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let (port, asked) = (listener.local_addr()?.port(), Asked::default());
        let noted = asked.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let noted = noted.clone();
                // A connection that cannot be led on is dropped, which its client notices.
                let _ = spawn(move || lead(&client, web, &noted));
            }
        });
        Ok(Relay { port, asked })
    }

    /// Whether and when a machine, or anybody, last sent something after an instant; and how often.
    pub fn asked_after(&self, who: Option<IpAddr>, since: Instant) -> (usize, Option<Instant>) {
        let asked = lock(&self.asked);
        let by = asked.iter().filter(|(from, at)| *at > since && who.is_none_or(|who| who == *from));
        let times: Vec<Instant> = by.map(|(_, at)| *at).collect();
        (times.len(), times.last().copied())
    }
}

fn lock(asked: &Mutex<Vec<(IpAddr, Instant)>>) -> MutexGuard<'_, Vec<(IpAddr, Instant)>> {
    asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn spawn(work: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work).map(drop)
}

fn lead(client: &TcpStream, port: u16, asked: &Asked) -> std::io::Result<()> {
    let (who, wanted) = (client.peer_addr()?.ip(), client.local_addr()?.ip());
    let web = TcpStream::connect(SocketAddr::new(wanted, port))?;
    client.set_nodelay(true)?;
    web.set_nodelay(true)?;
    let (from, to) = (client.try_clone()?, web.try_clone()?);
    let asked = asked.clone();
    spawn(move || copy(from, to, || lock(&asked).push((who, Instant::now()))))?;
    copy(web, client.try_clone()?, || {})
}

/// Copies until one side ends, and ends the other.
fn copy(mut from: TcpStream, mut to: TcpStream, mut note: impl FnMut()) -> std::io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = from.read(&mut chunk).unwrap_or(0);
        if count > 0 {
            note();
        }
        if count == 0 || to.write_all(&chunk[..count]).is_err() {
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_led_to_the_same_address_and_noted() {
        let here: IpAddr = "127.0.0.9".parse().unwrap();
        let web = TcpListener::bind((here, 0)).unwrap();
        let (port, begun) = (web.local_addr().unwrap().port(), Instant::now());
        std::thread::spawn(move || {
            let (mut socket, _) = web.accept().unwrap();
            let mut chunk = [0; 4];
            socket.read_exact(&mut chunk).unwrap();
            socket.write_all(b"pong").unwrap();
        });
        let relay = Relay::start(port).unwrap();
        assert_eq!(relay.asked_after(None, begun), (0, None));
        let mut client = TcpStream::connect((here, relay.port)).unwrap();
        client.write_all(b"ping").unwrap();
        let mut told = Vec::new();
        client.read_to_end(&mut told).unwrap();
        assert_eq!(told, b"pong");
        let who = client.local_addr().unwrap().ip();
        assert_eq!(relay.asked_after(Some(who), begun).0, 1);
        assert_eq!(relay.asked_after(Some("10.1.1.1".parse().unwrap()), begun).0, 0);
        assert_eq!(relay.asked_after(None, Instant::now()).0, 0);
    }
}
