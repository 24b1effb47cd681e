//! NATS's own text protocol, as far as scenarios need it: to hear what is written, and to do harm to streams.

use std::io::{BufRead, BufReader, Error, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A message is a table of a small cluster.
const BYTES_MAX: usize = 4 << 20;
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to a server.
pub struct Talk {
    reader: BufReader<TcpStream>,
    out: TcpStream,
}

pub struct Message {
    pub subject: String,
    /// Number of the subscription.
    pub id: String,
    /// Where an answer would go; of what a stream delivers, where it stands in the stream.
    pub reply: String,
    pub value: Vec<u8>,
}

impl Talk {
    /// Silence of `patience` is an error.
    pub fn open(server: SocketAddr, login: (&str, &str), patience: Duration) -> Result<Talk> {
        let socket = TcpStream::connect_timeout(&server, PATIENCE)?;
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let mut out = socket.try_clone()?;
        let (user, password) = login;
        write!(
            out,
            "CONNECT {{\"verbose\":false,\"pedantic\":false,\"user\":\"{user}\",\"pass\":\"{password}\",\
             \"lang\":\"text\",\"version\":\"1\",\"name\":\"faults\"}}\r\n"
        )?;
        Ok(Talk { reader: BufReader::new(socket), out })
    }

    pub fn subscribe(&mut self, subject: &str, id: &str) -> Result<()> {
        write!(self.out, "SUB {subject} {id}\r\n")
    }

    pub fn publish(&mut self, subject: &str, reply: &str, body: &str) -> Result<()> {
        write!(self.out, "PUB {subject} {reply} {}\r\n{body}\r\n", body.len())
    }

    /// The next message, whatever its subject.
    pub fn next(&mut self) -> Result<Message> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.reader.read_line(&mut line)? == 0 {
                return Err(Error::other("the server has closed the connection"));
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let (subject, id, reply, header, whole) = match words[..] {
                ["PING"] => {
                    self.out.write_all(b"PONG\r\n")?;
                    continue;
                }
                ["MSG", subject, id, bytes] => (subject, id, "", 0, read_number(bytes)?),
                ["MSG", subject, id, reply, bytes] => (subject, id, reply, 0, read_number(bytes)?),
                ["HMSG", subject, id, header, bytes] => {
                    (subject, id, "", read_number(header)?, read_number(bytes)?)
                }
                ["HMSG", subject, id, reply, header, bytes] => {
                    (subject, id, reply, read_number(header)?, read_number(bytes)?)
                }
                ["-ERR", ..] => return Err(Error::other(line)),
                _ => continue,
            };
            let mut bytes = vec![0; whole + 2];
            self.reader.read_exact(&mut bytes)?;
            let value = bytes[header.min(whole)..whole].to_vec();
            let (subject, id, reply) = (subject.to_string(), id.to_string(), reply.to_string());
            return Ok(Message { subject, id, reply, value });
        }
    }

    /// Asks and waits for the answer, which is JSON.
    pub fn request(&mut self, subject: &str, body: &str) -> Result<String> {
        let inbox = format!("faults.answer.{}.{}", std::process::id(), self.out.local_addr()?.port());
        self.subscribe(&inbox, "answer")?;
        self.publish(subject, &inbox, body)?;
        loop {
            let message = self.next()?;
            if message.id == "answer" {
                return Ok(String::from_utf8_lossy(&message.value).into_owned());
            }
        }
    }
}

/// Asks the first server that answers.
pub fn ask(
    servers: &[SocketAddr],
    login: (&str, &str),
    subject: &str,
    body: &str,
) -> std::result::Result<String, String> {
    let mut told = "there is no server".to_string();
    for server in servers {
        match Talk::open(*server, login, PATIENCE).and_then(|mut talk| talk.request(subject, body)) {
            Ok(answer) => return Ok(answer),
            Err(error) => told = error.to_string(),
        }
    }
    Err(format!("no NATS server answers {subject}: {told}"))
}

fn read_number(text: &str) -> Result<usize> {
    let number = text.parse().ok().filter(|number| *number <= BYTES_MAX);
    number.ok_or_else(|| Error::other("a message without a length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_and_pings_answered() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let told = b"INFO {}\r\nPING\r\nMSG a.b 1 4\r\na\r\nb\r\nHMSG c 2 back 6 9\r\nNATS\r\nxyz\r\n";
            socket.write_all(told).unwrap();
            let mut lines = BufReader::new(socket).lines();
            lines.find_map(|line| line.ok().filter(|line| line == "PONG")).is_some()
        });
        let mut talk = Talk::open(there, ("u", "p"), PATIENCE).unwrap();
        let one = talk.next().unwrap();
        assert_eq!((&*one.subject, &*one.id, &*one.reply, &*one.value), ("a.b", "1", "", &b"a\r\nb"[..]));
        let two = talk.next().unwrap();
        assert_eq!((&*two.subject, &*two.reply, &*two.value), ("c", "back", &b"xyz"[..]));
        assert!(talk.next().is_err());
        assert!(server.join().unwrap());
    }
}
