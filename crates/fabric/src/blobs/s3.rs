//! Blobs in S3, or in what speaks its protocol.
//!
//! Small blobs are written in one request, large ones in parts, which become a blob only when the last has arrived.

use super::{BlobError, Place, local};
use crate::waiting::wait_for;
use futures_util::StreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as Key;
use object_store::{ClientOptions, Error, ObjectStore, ObjectStoreExt, RetryConfig, WriteMultipart};
use std::fs::File;
use std::future::Future;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

pub struct S3 {
    store: Arc<AmazonS3>,
    /// Folder within the bucket, empty or ending in a slash.
    prefix: String,
    shown: String,
    /// `Some` until dropped.
    runtime: Option<Runtime>,
}

/// How long one request may take: a part at 300 KB/s.
const REQUEST: Duration = Duration::from_secs(30);

/// How long requests are made again after failures.
const RETRY: Duration = Duration::from_secs(60);

/// How long a whole blob may take: 100 GB at 30 MB/s.
const WHOLE: Duration = Duration::from_secs(3600);

/// Blobs beyond this go in parts of this size; S3 takes 10,000 parts, so up to 80 GB.
const PART_BYTES: usize = 8 << 20;

/// Parts under way at a time: 32 MiB of memory.
const PARTS_MAX: usize = 4;

impl S3 {
    /// `BUCKET/FOLDER`, with everything else from the environment.
    pub fn open(location: &str) -> Result<S3, BlobError> {
        // Plain HTTP is for stores on this machine, and asked for in so many words.
        let is_plain = std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| value == "true" || value == "1");
        S3::with(AmazonS3Builder::from_env(), location, is_plain)
    }

    fn with(builder: AmazonS3Builder, location: &str, is_plain: bool) -> Result<S3, BlobError> {
        let (bucket, prefix) = location.split_once('/').unwrap_or((location, ""));
        let refused = |why: String| {
            BlobError::Location(format!(
                "s3://{location} cannot be used: {why}; write s3://BUCKET/FOLDER, and set AWS_REGION, AWS_ENDPOINT and \
                 AWS_ACCESS_KEY_ID as your provider says"
            ))
        };
        if bucket.is_empty() {
            return Err(refused("no bucket is named".to_string()));
        }
        let options = ClientOptions::new().with_timeout(REQUEST).with_connect_timeout(REQUEST / 6);
        let retry = RetryConfig { max_retries: 5, retry_timeout: RETRY, ..RetryConfig::default() };
        let store = builder
            .with_bucket_name(bucket)
            .with_client_options(options.with_allow_http(is_plain))
            .with_retry(retry)
            .build()
            .map_err(|error| refused(error.to_string()))?;
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(1).thread_name("s3").enable_all();
        let prefix = prefix.trim_matches('/');
        Ok(S3 {
            store: Arc::new(store),
            prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
            shown: format!("s3://{location}"),
            runtime: Some(runtime.build().map_err(|error| refused(error.to_string()))?),
        })
    }

    fn key(&self, name: &str) -> Key {
        Key::from(format!("{}{name}", self.prefix))
    }

    fn call<T, F>(&self, name: &str, done: &'static str, call: F) -> Result<T, BlobError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let source = match self.runtime.as_ref().and_then(|runtime| wait_for(runtime, WHOLE, call)) {
            Some(Ok(value)) => return Ok(value),
            Some(Err(Error::NotFound { .. })) if done == "read" => {
                return Err(BlobError::Missing(name.to_string()));
            }
            Some(Err(error @ (Error::PermissionDenied { .. } | Error::Unauthenticated { .. }))) => {
                io::Error::new(io::ErrorKind::PermissionDenied, error)
            }
            Some(Err(error)) => io::Error::other(error),
            None => io::ErrorKind::TimedOut.into(),
        };
        Err(BlobError::Failed { name: name.to_string(), done, place: self.shown.clone(), source })
    }
}

/// What went wrong with a file here, told as the store tells what is wrong there.
fn of_file(source: io::Error) -> Error {
    Error::Generic { store: "file", source: Box::new(source) }
}

async fn upload(store: Arc<AmazonS3>, key: Key, mut file: File) -> Result<(), Error> {
    let mut part = vec![0; PART_BYTES];
    let mut upload = WriteMultipart::new_with_chunk_size(store.put_multipart(&key).await?, PART_BYTES);
    loop {
        let sent = match file.read(&mut part) {
            Ok(0) => return upload.finish().await.map(drop),
            Ok(count) => upload.wait_for_capacity(PARTS_MAX).await.map(|()| upload.write(&part[..count])),
            Err(source) => Err(of_file(source)),
        };
        if let Err(error) = sent {
            // Parts without a blob cost money; what cannot be told now, the bucket's own rules remove.
            let _ = upload.abort().await;
            return Err(error);
        }
    }
}

impl Place for S3 {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
        let (store, key, bytes) = (self.store.clone(), self.key(name), bytes.to_vec());
        self.call(name, "written", async move { store.put(&key, bytes.into()).await.map(drop) })
    }

    fn put_file(&self, name: &str, from: &Path) -> Result<(), BlobError> {
        let file = File::open(from).map_err(|source| local(name, from, source))?;
        let len = file.metadata().map_err(|source| local(name, from, source))?.len();
        if len <= PART_BYTES as u64 {
            return self.put(name, &std::fs::read(from).map_err(|source| local(name, from, source))?);
        }
        let (store, key) = (self.store.clone(), self.key(name));
        self.call(name, "written", upload(store, key, file))
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, BlobError> {
        let (store, key) = (self.store.clone(), self.key(name));
        self.call(name, "read", async move { Ok(store.get(&key).await?.bytes().await?.to_vec()) })
    }

    fn size(&self, name: &str) -> Result<u64, BlobError> {
        let (store, key) = (self.store.clone(), self.key(name));
        self.call(name, "read", async move { Ok(store.head(&key).await?.size) })
    }

    fn get_file(&self, name: &str, to: &Path) -> Result<(), BlobError> {
        let mut file = File::create(to).map_err(|source| local(name, to, source))?;
        let (store, key) = (self.store.clone(), self.key(name));
        self.call(name, "read", async move {
            let mut chunks = store.get(&key).await?.into_stream();
            while let Some(chunk) = chunks.next().await {
                file.write_all(&chunk?).map_err(of_file)?;
            }
            Ok(())
        })
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, BlobError> {
        let (store, within) = (self.store.clone(), self.key(folder));
        let keys = self.call(folder, "listed", async move {
            let mut keys = Vec::new();
            let mut found = store.list(Some(&within));
            while let Some(meta) = found.next().await {
                keys.push(meta?.location.to_string());
            }
            Ok(keys)
        })?;
        Ok(keys.iter().filter_map(|key| key.strip_prefix(&self.prefix)).map(String::from).collect())
    }

    fn delete(&self, name: &str) -> Result<(), BlobError> {
        let (store, key) = (self.store.clone(), self.key(name));
        let deleted = self.call(name, "removed", async move {
            match store.delete(&key).await {
                Err(Error::NotFound { .. }) => Ok(()),
                other => other,
            }
        });
        deleted.map(drop)
    }

    fn shown(&self) -> String {
        self.shown.clone()
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Blobs;
    use super::*;
    use std::collections::BTreeMap;
    use std::io::{BufRead, BufReader};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Mutex;

    /// As much of S3 as is asked for: put, get, list, bulk delete, multipart uploads.
    #[derive(Default)]
    struct Store(Mutex<BTreeMap<String, Vec<u8>>>);

    impl Store {
        fn serve(stream: TcpStream, store: &Store) -> io::Result<()> {
            let mut reader = BufReader::new(stream.try_clone()?);
            loop {
                let mut first = String::new();
                if reader.read_line(&mut first)? == 0 {
                    return Ok(());
                }
                let (mut length, mut line) = (0, String::new());
                while reader.read_line(&mut line)? > 2 {
                    let lower = line.to_ascii_lowercase();
                    length = lower
                        .strip_prefix("content-length:")
                        .map_or(length, |text| text.trim().parse().unwrap());
                    line.clear();
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body)?;
                let mut words = first.split(' ');
                let (method, target) = (words.next().unwrap(), words.next().unwrap());
                let (status, body) = store.answer(method, target, body);
                let head = format!(
                    "HTTP/1.1 {status} x\r\nContent-Length: {}\r\nETag: \"e\"\r\nLast-Modified: Thu, 01 Jan 2026 \
                     00:00:00 GMT\r\n\r\n",
                    body.len()
                );
                (&stream).write_all(head.as_bytes())?;
                (&stream).write_all(&body)?;
            }
        }

        fn answer(&self, method: &str, target: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let key = path.strip_prefix("/bucket").unwrap().trim_start_matches('/').to_string();
            let field =
                |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            let mut all = self.0.lock().unwrap();
            let part = |number: &str| format!("\0{key}\0{number:0>5}");
            match (method, field("partNumber")) {
                ("PUT", Some(number)) => drop(all.insert(part(number), body)),
                ("PUT", None) => drop(all.insert(key, body)),
                ("GET", _) if field("list-type").is_some() => {
                    let prefix = field("prefix").unwrap_or_default().replace("%2F", "/");
                    let rows =
                        all.iter().filter(|(key, _)| key.starts_with(&prefix) && !key.starts_with('\0'));
                    let rows = rows.map(|(key, bytes)| {
                        format!(
                            "<Contents><Key>{key}</Key><Size>{}</Size><LastModified>2026-01-01T00:00:00.000Z\
                             </LastModified><ETag>e</ETag></Contents>",
                            bytes.len()
                        )
                    });
                    let rows: String = rows.collect();
                    return (200, format!("<ListBucketResult>{rows}</ListBucketResult>").into_bytes());
                }
                ("GET", _) => return all.get(&key).map_or((404, Vec::new()), |bytes| (200, bytes.clone())),
                ("POST", _) if query.starts_with("uploads") => {
                    let id = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
                    return (200, id.into());
                }
                ("POST", _) if field("uploadId").is_some() => {
                    let parts = all
                        .range(part("")..part("99999"))
                        .map(|(_, bytes)| bytes.clone())
                        .collect::<Vec<_>>();
                    all.retain(|other, _| !other.starts_with('\0'));
                    all.insert(key, parts.concat());
                    let done =
                        "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>";
                    return (200, done.into());
                }
                ("POST", _) => {
                    let wanted = String::from_utf8(body).unwrap();
                    let key =
                        wanted.split("<Key>").nth(1).and_then(|rest| rest.split("</Key>").next()).unwrap();
                    all.remove(key);
                    return (
                        200,
                        format!("<DeleteResult><Deleted><Key>{key}</Key></Deleted></DeleteResult>").into(),
                    );
                }
                _ => drop(all.remove(&key)),
            }
            (200, Vec::new())
        }
    }

    fn blobs(listener: &TcpListener, location: &str) -> Blobs {
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let builder = AmazonS3Builder::new().with_endpoint(endpoint).with_region("here");
        let builder = builder.with_access_key_id("id").with_secret_access_key("key");
        Blobs { place: Box::new(S3::with(builder, location, true).unwrap()) }
    }

    #[test]
    fn a_bucket_does_what_every_place_does() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let blobs = blobs(&listener, "bucket/in/here");
        let store = Arc::new(Store::default());
        let served = Arc::clone(&store);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (store, stream) = (Arc::clone(&served), stream.unwrap());
                std::thread::spawn(move || Store::serve(stream, &store));
            }
        });
        let here = tempfile::tempdir().unwrap();
        super::super::tests::check(&blobs, here.path());
        let keys: Vec<String> = store.0.lock().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["in/here/index/10/b", "in/here/large"], "all lies in the folder");
        let (from, to) = (here.path().join("from"), here.path().join("to"));
        let bytes: Vec<u8> = (0..20 << 20).map(|at: u32| at.to_le_bytes()[2]).collect();
        std::fs::write(&from, &bytes).unwrap();
        blobs.put_file("in/parts", &from).unwrap();
        blobs.get_file("in/parts", &to).unwrap();
        assert!(std::fs::read(&to).unwrap() == bytes, "parts come in order");
    }

    #[test]
    fn a_bucket_without_name_is_refused() {
        let error = S3::with(AmazonS3Builder::new(), "/x", false).err().unwrap().to_string();
        assert!(error.contains("no bucket is named"), "{error}");
    }
}
