//! Tells systemd how the process stands, where it was started as `Type=notify`: a datagram on the socket that
//! `NOTIFY_SOCKET` names. Without it nothing happens.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixDatagram;

/// It does what it is for.
pub fn ready() {
    tell("READY=1");
}

/// It ends; more signals are not needed.
pub fn stopping() {
    tell("STOPPING=1");
}

/// A line for `systemctl status`.
pub fn status(sentence: &str) {
    tell(&format!("STATUS={}", sentence.replace('\n', " ")));
}

fn tell(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&socket, state) {
        tracing::debug!(%error, state, "systemd is not told");
    }
}

fn send(socket: &OsStr, state: &str) -> std::io::Result<()> {
    let datagram = UnixDatagram::unbound()?;
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.as_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt as _;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return datagram.send_to_addr(state.as_bytes(), &address).map(drop);
    }
    datagram.send_to(state.as_bytes(), socket).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_arrive_at_a_socket_with_a_path_and_at_one_with_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        let read = |socket: &UnixDatagram| {
            let mut bytes = [0; 64];
            let count = socket.recv(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[..count]).into_owned()
        };
        send(path.as_os_str(), "READY=1").unwrap();
        assert_eq!(read(&by_path), "READY=1");
        #[cfg(target_os = "linux")]
        {
            use std::os::linux::net::SocketAddrExt as _;
            let name = format!("farol-test-{}", std::process::id());
            let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
            let by_name = UnixDatagram::bind_addr(&address).unwrap();
            send(OsStr::new(&format!("@{name}")), "STOPPING=1").unwrap();
            assert_eq!(read(&by_name), "STOPPING=1");
        }
        assert!(send(OsStr::new("/nowhere/notify"), "READY=1").is_err());
    }
}
