//! The router, driven without a socket.
