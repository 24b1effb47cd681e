//! Files as the stores see them: a small trait with a real, a remembered and a faulty implementation.
