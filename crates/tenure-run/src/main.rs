//! A keeper as a program of its own, for supervisors that are not `tenure run`.

fn main() -> std::io::Result<()> {
    tenure_run::keeper::keep()
}
