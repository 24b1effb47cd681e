//! Sends an answer: whole, slowly, endlessly or wrongly.
//!
//! Written on the bare connection, because an HTTP library would refuse to break the rules as the Web does.

use super::answer::{Answer, Delivery, http_date};
use super::place::push_number;
use super::world::Breakage;
use bytes::BytesMut;
use farol_base::Timestamp;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, IoSlice, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A client that takes no byte for this long is left.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Pieces in which a slow answer dribbles.
const PIECES: u32 = 8;
/// Filler of huge pages is written in blocks of this size.
const BLOCK_BYTES: usize = 64 << 10;
/// Answers shorter than this are not worth compressing.
const GZIP_BYTES_MIN: usize = 256;

/// How the client asked for the answer to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub head_only: bool,
    pub keep_alive: bool,
    pub gzip: bool,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// 0 where no HTTP was sent.
    pub status: u16,
    pub bytes: u64,
    /// When the last write began; microseconds since 1970.
    pub end_us: u64,
    /// The connection can take another request.
    pub keep: bool,
    /// The client left before the end.
    pub cut: bool,
}

/// A connection with what is needed to send answers on it.
#[derive(Debug)]
pub struct Outlet {
    pub stream: TcpStream,
    /// Bytes that came in and are not read yet.
    pub input: BytesMut,
    head: Vec<u8>,
    packed: Vec<u8>,
    sent: u64,
    end_us: u64,
}

impl Outlet {
    pub fn new(stream: TcpStream) -> Outlet {
        let input = BytesMut::with_capacity(4096);
        Outlet { stream, input, head: Vec::with_capacity(512), packed: Vec::new(), sent: 0, end_us: 0 }
    }

    /// Sends an answer.
    pub async fn send(&mut self, answer: &Answer, wish: Wish) -> Sent {
        self.sent = 0;
        self.end_us = now_us();
        let status = match answer.delivery {
            Delivery::Broken(Breakage::Noise | Breakage::Silence) => 0,
            _ => answer.status,
        };
        let outcome = match answer.delivery {
            _ if wish.head_only || answer.status == 304 => self.send_head(answer, wish).await,
            Delivery::Whole => self.send_whole(answer, wish).await,
            Delivery::Slow { wait, dribbles } => self.send_slowly(answer, wish, wait, dribbles).await,
            Delivery::Huge { bytes } => self.send_huge(answer, wish, bytes).await,
            Delivery::Bomb { bytes } => self.send_bomb(answer, wish, bytes).await,
            Delivery::Broken(breakage) => self.send_broken(answer, breakage).await.map(|()| false),
        };
        let keep = matches!(outcome, Ok(true)) && wish.keep_alive;
        Sent { status, bytes: self.sent, end_us: self.end_us, keep, cut: outcome.is_err() }
    }

    async fn send_head(&mut self, answer: &Answer, wish: Wish) -> io::Result<bool> {
        let length = (answer.status != 304).then_some(answer.body.len() as u64);
        push_head(&mut self.head, answer, length, wish.keep_alive, "");
        self.write_all(None).await?;
        Ok(true)
    }

    async fn send_whole(&mut self, answer: &Answer, wish: Wish) -> io::Result<bool> {
        if wish.gzip && answer.body.len() >= GZIP_BYTES_MIN {
            self.packed.clear();
            gzip_into(&mut self.packed, &answer.body)?;
            let packed = std::mem::take(&mut self.packed);
            let extra = "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n";
            push_head(&mut self.head, answer, Some(packed.len() as u64), wish.keep_alive, extra);
            let done = self.write_all(Some(&packed)).await;
            self.packed = packed;
            return done.map(|()| true);
        }
        push_head(&mut self.head, answer, Some(answer.body.len() as u64), wish.keep_alive, "");
        self.write_all(Some(&answer.body)).await?;
        Ok(true)
    }

    async fn send_slowly(
        &mut self,
        answer: &Answer,
        wish: Wish,
        wait: Duration,
        dribbles: bool,
    ) -> io::Result<bool> {
        if !dribbles {
            self.pause(wait).await?;
            return self.send_whole(answer, wish).await;
        }
        push_head(&mut self.head, answer, Some(answer.body.len() as u64), wish.keep_alive, "");
        for piece in answer.body.chunks(answer.body.len().div_ceil(PIECES as usize).max(1)) {
            self.write_all(Some(piece)).await?;
            self.head.clear();
            self.pause(wait / PIECES).await?;
        }
        Ok(true)
    }

    async fn send_huge(&mut self, answer: &Answer, wish: Wish, bytes: u64) -> io::Result<bool> {
        push_head(&mut self.head, answer, Some(answer.body.len() as u64 + bytes), wish.keep_alive, "");
        self.write_all(Some(&answer.body)).await?;
        self.head.clear();
        let block = filler();
        let mut left = bytes;
        while left > 0 {
            let now = left.min(block.len() as u64);
            self.write_all(Some(&block[..now as usize])).await?;
            left -= now;
        }
        Ok(true)
    }

    async fn send_bomb(&mut self, answer: &Answer, wish: Wish, bytes: u64) -> io::Result<bool> {
        // A gzip body may have many members; one of them is enough to make.
        let mut member = Vec::new();
        gzip_into(&mut member, &filler())?;
        let mut packed = Vec::new();
        gzip_into(&mut packed, &answer.body)?;
        for _ in 0..bytes / BLOCK_BYTES as u64 {
            packed.extend_from_slice(&member);
        }
        let extra = "Content-Encoding: gzip\r\n";
        push_head(&mut self.head, answer, Some(packed.len() as u64), wish.keep_alive, extra);
        self.write_all(Some(&packed)).await?;
        Ok(true)
    }

    /// Sends an answer that breaks the rules; the connection ends after it.
    async fn send_broken(&mut self, answer: &Answer, breakage: Breakage) -> io::Result<()> {
        let body = &answer.body[..];
        let half = body.len() / 2;
        let length = Some(body.len() as u64);
        let chunked = "Transfer-Encoding: chunked\r\n";
        match breakage {
            Breakage::CutShort => {
                push_head(&mut self.head, answer, length, false, "");
                self.write_all(Some(&body[..half])).await
            }
            Breakage::LengthTooShort => {
                push_head(&mut self.head, answer, Some(half as u64), false, "");
                self.write_all(Some(body)).await
            }
            Breakage::BadChunk | Breakage::CutChunks => {
                push_head(&mut self.head, answer, None, false, chunked);
                let mut chunks = format!("{half:x}\r\n").into_bytes();
                chunks.extend_from_slice(&body[..half]);
                chunks.extend_from_slice(if breakage == Breakage::BadChunk {
                    b"\r\nzz\r\nnot a chunk"
                } else {
                    b"\r\n"
                });
                self.write_all(Some(&chunks)).await
            }
            Breakage::FalseGzip => {
                push_head(&mut self.head, answer, length, false, "Content-Encoding: gzip\r\n");
                self.write_all(Some(body)).await
            }
            Breakage::CutGzip => {
                let mut packed = Vec::new();
                gzip_into(&mut packed, body)?;
                packed.truncate(packed.len() / 2);
                push_head(
                    &mut self.head,
                    answer,
                    Some(packed.len() as u64),
                    false,
                    "Content-Encoding: gzip\r\n",
                );
                self.write_all(Some(&packed)).await
            }
            Breakage::UnknownCoding => {
                push_head(&mut self.head, answer, length, false, "Content-Encoding: x-ancient\r\n");
                self.write_all(Some(body)).await
            }
            Breakage::Noise => {
                self.head.clear();
                let noise: Vec<u8> =
                    body.iter().map(|byte| byte.wrapping_mul(167) | 0x80).take(2000).collect();
                self.write_all(Some(&noise)).await
            }
            Breakage::Silence => Ok(()),
            Breakage::HeadFlood => {
                self.head.clear();
                self.head.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
                let line = format!("X-Flood: {}\r\n", "a".repeat(1000));
                for _ in 0..1000 {
                    self.write_all(Some(line.as_bytes())).await?;
                    self.head.clear();
                }
                self.write_all(Some(b"\r\n")).await
            }
            Breakage::BadText => {
                push_head(&mut self.head, answer, length, false, "");
                self.write_all(Some(body)).await
            }
        }
    }

    /// Writes the head and this piece of body.
    async fn write_all(&mut self, body: Option<&[u8]>) -> io::Result<()> {
        let (mut head, mut body) = (&self.head[..], body.unwrap_or(b""));
        while !head.is_empty() || !body.is_empty() {
            // Taken before the write: the client may have the bytes before the call returns.
            self.end_us = now_us();
            match self.stream.try_write_vectored(&[IoSlice::new(head), IoSlice::new(body)]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.sent += written as u64;
                    let of_head = written.min(head.len());
                    head = &head[of_head..];
                    body = &body[written - of_head..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::timeout(WRITE_TIMEOUT, self.stream.writable()).await??;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits, but not for a client that leaves meanwhile.
    async fn pause(&mut self, wait: Duration) -> io::Result<()> {
        let sleep = tokio::time::sleep(wait);
        tokio::pin!(sleep);
        loop {
            tokio::select! {
                () = &mut sleep => return Ok(()),
                // Early next requests are kept, up to a limit that no honest client reaches.
                read = self.stream.read_buf(&mut self.input), if self.input.len() < super::request::HEAD_BYTES_MAX => {
                    if read? == 0 {
                        self.end_us = now_us();
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                }
            }
        }
    }
}

/// Microseconds since 1970.
pub fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

fn push_head(head: &mut Vec<u8>, answer: &Answer, length: Option<u64>, keep_alive: bool, extra: &str) {
    head.clear();
    head.extend_from_slice(b"HTTP/1.1 ");
    push_number(head, u64::from(answer.status));
    head.extend_from_slice(reason(answer.status));
    head.extend_from_slice(b"\r\nServer: farol-sim\r\nDate: ");
    push_date(head, Timestamp::from_millis(now_us() / 1000));
    if answer.status != 304 {
        head.extend_from_slice(b"\r\nContent-Type: ");
        head.extend_from_slice(answer.content_type.as_bytes());
    }
    if let Some(length) = length {
        head.extend_from_slice(b"\r\nContent-Length: ");
        push_number(head, length);
    }
    if let Some(location) = &answer.location {
        head.extend_from_slice(b"\r\nLocation: ");
        head.extend_from_slice(location.as_bytes());
    }
    if let Some(etag) = answer.etag {
        // Writing into memory does not fail.
        let _ = write!(head, "\r\nETag: \"{etag:016x}\"");
    }
    if let Some(modified) = answer.last_modified {
        head.extend_from_slice(b"\r\nLast-Modified: ");
        push_date(head, modified);
    }
    if let Some(secs) = answer.retry_after_secs {
        head.extend_from_slice(b"\r\nRetry-After: ");
        push_number(head, u64::from(secs));
    }
    if let Some(tag) = answer.robots_tag {
        head.extend_from_slice(b"\r\nX-Robots-Tag: ");
        head.extend_from_slice(tag.as_bytes());
    }
    if !keep_alive {
        head.extend_from_slice(b"\r\nConnection: close");
    }
    head.extend_from_slice(b"\r\n");
    head.extend_from_slice(extra.as_bytes());
    head.extend_from_slice(b"\r\n");
}

fn push_date(head: &mut Vec<u8>, at: Timestamp) {
    let _ = write!(head, "{}", http_date(at));
}

fn reason(status: u16) -> &'static [u8] {
    match status {
        200 => b" OK",
        301 => b" Moved Permanently",
        302 => b" Found",
        303 => b" See Other",
        304 => b" Not Modified",
        307 => b" Temporary Redirect",
        308 => b" Permanent Redirect",
        400 => b" Bad Request",
        404 => b" Not Found",
        405 => b" Method Not Allowed",
        410 => b" Gone",
        413 => b" Content Too Large",
        429 => b" Too Many Requests",
        431 => b" Request Header Fields Too Large",
        500 => b" Internal Server Error",
        501 => b" Not Implemented",
        503 => b" Service Unavailable",
        _ => b" Whatever",
    }
}

fn gzip_into(out: &mut Vec<u8>, bytes: &[u8]) -> io::Result<()> {
    let mut gzip = GzEncoder::new(out, Compression::fast());
    gzip.write_all(bytes)?;
    gzip.finish().map(drop)
}

/// A block of harmless HTML.
fn filler() -> Vec<u8> {
    b"<p>and so on</p>".repeat(BLOCK_BYTES / 16)
}
